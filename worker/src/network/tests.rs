use super::*;

fn network(texts: &[&str]) -> Network {
    let typed: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Network::new(&allow::parse(&typed).unwrap())
}

fn spec(wish: Option<Wish>, run: Run) -> Spec {
    Spec { network: wish, ..Spec::new("r".parse().unwrap(), run) }
}

fn shell(wish: Option<Wish>) -> Spec {
    spec(wish, Run::Shell { code: String::new() })
}

#[test]
fn each_name_has_one_address_of_its_own() {
    let network = network(&["a:80", "b:80", "a:443"]);
    let restricted = shell(Some(Wish::Restricted));
    let inside: Vec<String> = network.binds(&restricted).iter().map(ToString::to_string).collect();
    assert_eq!(inside, ["127.0.0.2:80", "127.0.0.3:80", "127.0.0.2:443"]);
    assert_eq!(network.hosts(&restricted), format!("{HOSTS}127.0.0.2 a\n127.0.0.3 b\n"));
    let targets: Vec<String> = network.targets().map(|target| target.to_string()).collect();
    assert_eq!(targets, ["tcp:a:80", "tcp:b:80", "tcp:a:443"]);
}

#[test]
fn code_reaches_nothing_unless_it_asks_and_agents_reach_what_is_allowed() {
    let network = network(&["a:80"]);
    for closed in [shell(None), shell(Some(Wish::None))] {
        assert_eq!((network.binds(&closed), network.hosts(&closed)), (vec![], HOSTS));
    }
    let agent: Run = serde_json::from_str(r#"{"kind": "agent", "prompt": "x"}"#).unwrap();
    assert_eq!(network.binds(&spec(None, agent.clone())).len(), 1);
    assert_eq!(network.binds(&spec(Some(Wish::None), agent)).len(), 0);
}

#[test]
fn restricted_with_nothing_allowed_equals_none() {
    let (network, restricted) = (network(&[]), shell(Some(Wish::Restricted)));
    assert_eq!((network.binds(&restricted), network.hosts(&restricted)), (vec![], HOSTS));
}

#[test]
fn connections_of_all_slots_leave_half_of_the_descriptors() {
    for (open_files, slots) in [(1024, 1), (1024, 3), (4096, 8), (1 << 20, 3)] {
        let connections = connections(open_files, slots) as u64;
        assert!(u64::from(slots) * (3 * connections + 64) <= open_files / 2, "{open_files} {slots}: {connections}");
    }
    assert_eq!((connections(1 << 20, 3), connections(256, 64)), (256, 1));
}
