//! Sessions as the coordinator keeps them, in memory: versions of trees, contents, stages that a report publishes.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;

use protocol::StageId;
use protocol::workspace::frames::{BlobFrame, StageFrame, encode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(u32, Vec<u8>),
    Directory(u32),
    Link(String),
}

pub(crate) type Tree = BTreeMap<String, Node>;

/// A file with the usual mode.
pub(crate) fn file(bytes: impl AsRef<[u8]>) -> Node {
    Node::File(0o644, bytes.as_ref().to_vec())
}

pub(crate) fn link(target: &str) -> Node {
    Node::Link(target.into())
}

#[derive(Default, Clone)]
pub(crate) struct Session {
    pub(crate) generation: u64,
    pub(crate) versions: Vec<Tree>,
}

/// A stage that came.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) id: String,
    pub(crate) base: u64,
    pub(crate) frames: Vec<(StageFrame, Vec<u8>)>,
}

#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) sessions: HashMap<String, Session>,
    pub(crate) overlays: Tree,
    pub(crate) stages: HashMap<String, Stage>,
    /// The session of each lease, and its mode.
    pub(crate) leases: HashMap<String, (String, String)>,
}

impl Session {
    pub(crate) fn newest(&self) -> (u64, Tree) {
        (self.versions.len() as u64, self.versions.last().cloned().unwrap_or_default())
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Tree)) {
        let (_, mut tree) = self.newest();
        change(&mut tree);
        let paths: Vec<String> = tree.keys().cloned().collect();
        for path in paths {
            for (end, _) in path.match_indices('/') {
                tree.entry(path[..end].to_owned()).or_insert(Node::Directory(0o755));
            }
        }
        self.versions.push(tree);
    }

    /// The lines of a manifest.
    fn manifest(&self, name: &str, mode: &str, since: Option<u64>, overlays: &Tree) -> Vec<Value> {
        let (version, tree) = self.newest();
        let since = since.filter(|since| *since >= 1 && *since <= version);
        let difference = if since.is_some() { "since" } else { "whole" };
        let mut lines =
            vec![json!({"type": "head", "session": name, "generation": self.generation, "version": version,
            "mode": mode, "difference": difference, "quota_left_bytes": 1 << 30})];
        let old = since.map(|since| self.versions[usize::try_from(since).unwrap() - 1].clone()).unwrap_or_default();
        let changed = tree.iter().filter(|(path, node)| since.is_none() || old.get(*path) != Some(node));
        lines.extend(changed.map(|(path, node)| entry(path, node, false)));
        let gone = old.keys().filter(|path| !tree.contains_key(*path));
        lines.extend(gone.map(|path| json!({"type": "removed", "path": path})));
        lines.extend(overlays.iter().map(|(path, node)| entry(path, node, true)));
        let count = lines.len() - 1;
        lines.push(json!({"type": "end", "lines": count}));
        lines
    }

    /// Publishes a stage.
    fn publish(&mut self, stage: &Stage) {
        self.change(|tree| {
            for (frame, bytes) in &stage.frames {
                let clear = |tree: &mut Tree, path: &str| {
                    tree.retain(|other, _| other != path && !other.starts_with(&format!("{path}/")));
                };
                match frame {
                    StageFrame::File { path, mode, .. } => {
                        clear(tree, path);
                        tree.insert(path.clone(), Node::File(*mode, bytes.clone()));
                    }
                    StageFrame::Directory { path, mode } => {
                        tree.insert(path.clone(), Node::Directory(*mode));
                    }
                    StageFrame::Symlink { path, target } => {
                        clear(tree, path);
                        tree.insert(path.clone(), Node::Link(target.clone()));
                    }
                    StageFrame::Delete { path } => clear(tree, path),
                    StageFrame::End { .. } => {}
                }
            }
        });
    }
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entry(path: &str, node: &Node, overlay: bool) -> Value {
    let mut entry =
        json!({"type": "entry", "path": path, "modified_at": "2026-01-31T12:00:00.000Z", "overlay": overlay});
    match node {
        Node::File(mode, bytes) => {
            entry["kind"] = json!("file");
            entry["mode"] = json!(mode);
            entry["size"] = json!(bytes.len());
            entry["sha256"] = json!(sum(bytes));
        }
        Node::Directory(mode) => {
            entry["kind"] = json!("directory");
            entry["mode"] = json!(mode);
        }
        Node::Link(target) => {
            entry["kind"] = json!("symlink");
            entry["mode"] = json!(0o777);
            entry["target"] = json!(target);
        }
    }
    entry
}

impl Sessions {
    /// The manifest for a lease, as it goes over the wire.
    pub(crate) fn manifest(&self, lease: &str, since: Option<u64>) -> Vec<u8> {
        let (name, mode) = &self.leases[lease];
        let session = self.sessions.get(name).cloned().unwrap_or_default();
        let lines = session.manifest(name, mode, since, &self.overlays);
        lines.iter().flat_map(|line| (line.to_string() + "\n").into_bytes()).collect()
    }

    /// The contents for a lease, as they go over the wire.
    pub(crate) fn blobs(&self, lease: &str, wanted: &Value) -> Vec<u8> {
        let session = &self.sessions[&self.leases[lease].0];
        let nodes = session.versions.last().into_iter().flat_map(BTreeMap::values).chain(self.overlays.values());
        let mut known: HashMap<String, &Vec<u8>> = HashMap::new();
        for node in nodes {
            if let Node::File(_, bytes) = node {
                known.insert(sum(bytes), bytes);
            }
        }
        let wanted: Vec<&str> = wanted["sha256"].as_array().unwrap().iter().map(|sum| sum.as_str().unwrap()).collect();
        let mut stream = Vec::new();
        for sum in &wanted {
            let bytes = known[*sum];
            stream.extend(encode(&BlobFrame::Blob { sha256: (*sum).into(), size: bytes.len() as u64 }).unwrap());
            stream.extend(bytes);
        }
        stream.extend(encode(&BlobFrame::End { count: wanted.len() as u64 }).unwrap());
        stream
    }

    /// Takes a stage in: it must be whole and well-formed.
    pub(crate) fn stage(&mut self, lease: &str, base: u64, body: &[u8]) -> Value {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(body).read_to_end(&mut bytes).unwrap();
        let (mut rest, mut frames) = (bytes.as_slice(), Vec::new());
        loop {
            let (length, after) = rest.split_first_chunk::<4>().unwrap();
            let (header, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            let frame: StageFrame = serde_json::from_slice(header).unwrap();
            let size = if let StageFrame::File { size, .. } = &frame { usize::try_from(*size).unwrap() } else { 0 };
            let (content, after) = after.split_at(size);
            rest = after;
            if let StageFrame::End { count } = frame {
                assert_eq!(count, frames.len() as u64);
                assert!(rest.is_empty(), "bytes after the end");
                break;
            }
            frames.push((frame, content.to_vec()));
        }
        let id = StageId::new(1, u128::from(base) + 1 + self.stages.len() as u128).to_string();
        let answer = json!({"stage": id, "base": base, "entries": frames.len(), "deletes": 0, "bytes": 0});
        self.stages.insert(lease.into(), Stage { id, base, frames });
        answer
    }

    /// Publishes what a report names.
    pub(crate) fn report(&mut self, lease: &str, report: &Value) {
        let Some(stage) = self.stages.get(lease).filter(|stage| report["stage"] == json!(stage.id)) else {
            assert!(report["stage"].is_null(), "a report names a stage that never came");
            return;
        };
        let name = &self.leases[lease].0;
        let session = self.sessions.entry(name.clone()).or_default();
        assert_eq!(stage.base, session.newest().0, "a stage on another base");
        session.publish(stage);
    }
}
