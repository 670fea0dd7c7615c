use super::*;

#[test]
fn a_lower_level_is_only_taken_when_it_is_asked_for_by_who_can_have_it() {
    for is_root in [true, false] {
        assert_eq!(Level::decide(LevelUse::Auto, is_root).unwrap(), Level::Bwrap);
        assert_eq!(Level::decide(LevelUse::Bwrap, is_root).unwrap(), Level::Bwrap);
    }
    assert_eq!(Level::decide(LevelUse::Process, true).unwrap(), Level::Process);
    assert_eq!(Level::decide(LevelUse::None, false).unwrap(), Level::None);
    let refused = |asked, is_root| Level::decide(asked, is_root).unwrap_err().to_string();
    assert!(refused(LevelUse::Process, false).contains("--confinement none"));
    assert!(refused(LevelUse::None, true).contains("--confinement process"));
}

#[test]
fn what_only_namespaces_or_a_cgroup_hold_is_not_offered_without_them() {
    assert_eq!(Level::Bwrap.offers(false), ["limits", "network:none", "network:restricted", "session"]);
    for level in [Level::Process, Level::None] {
        assert_eq!(level.offers(true), ["limits", "network:none"]);
        assert_eq!(level.offers(false), ["network:none"]);
        assert!(level.warning().is_some());
    }
    assert!(Level::Bwrap.warning().is_none());
}
