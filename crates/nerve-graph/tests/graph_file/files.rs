//! Files on disk: nested graphs in their own files, and relative paths.

use std::fs;
use std::path::Path;

use nerve_graph::file::{Format, GraphFile, NodeDefinition};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the error of a file, with `DIR` in place of its directory.
fn load_error(folder: &Path, name: &str) -> String {
    match GraphFile::load(&folder.join(name)) {
        Ok(_) => "fine".to_string(),
        Err(error) => error.to_string().replace(&folder.display().to_string(), "DIR"),
    }
}

#[test]
fn nested_files_are_inlined() {
    let folder = folder(&[
        (
            "main.yaml",
            "graph: main\nnodes:\n  sub: {type: graph, file: parts/sub.json}\nsteps: [{id: x, node: sub}]\n",
        ),
        (
            "parts/sub.json",
            "{\"graph\": \"sub\", \"nodes\": {\"leaf\": {\"type\": \"graph\", \"file\": \"../leaf.yaml\"}}, \"steps\": []}",
        ),
        ("leaf.yaml", "graph: leaf\nnodes:\n  sh: {type: bash, cwd: here}\nsteps: []\n"),
    ]);
    let file = GraphFile::load(&folder.path().join("main.yaml")).unwrap();
    let inner = |file: &GraphFile, name: &str| match &file.nodes[name] {
        NodeDefinition::Graph(node) => {
            assert_eq!(node.file, None);
            node.graph.clone().unwrap()
        }
        other => panic!("{other:?}"),
    };
    let leaf = inner(&inner(&file, "sub"), "leaf");
    assert_eq!(leaf.graph, "leaf");
    let NodeDefinition::Bash(bash) = &leaf.nodes["sh"] else { panic!("{:?}", leaf.nodes) };
    let cwd = bash.cwd.as_deref().unwrap();
    assert!(Path::new(cwd).is_absolute(), "{cwd}");
    assert_eq!(
        fs::canonicalize(Path::new(cwd).parent().unwrap()).unwrap(),
        fs::canonicalize(folder.path()).unwrap()
    );
    // The serialized graph needs no other file.
    let reparsed = GraphFile::from_value(serde_json::to_value(&file).unwrap()).unwrap();
    assert_eq!(reparsed, file);
}

#[test]
fn working_directories_are_relative_to_the_file() {
    let text = "graph: a\nnodes:\n  a: {type: pty, cwd: .}\n  b: {type: bash, cwd: sub/x}\n  c: {type: claude, cwd: /abs}\n  d: {type: pty}\nsteps: []\n";
    let folder = folder(&[("g.yaml", text)]);
    let loaded = GraphFile::load(&folder.path().join("g.yaml")).unwrap();
    let read = GraphFile::from_text(text, "-", Format::Yaml, Some(folder.path())).unwrap();
    assert_eq!(loaded, read);
    let cwds: Vec<Option<String>> =
        loaded.nodes.values().map(|node| node.clone().cwd_mut().cloned().flatten()).collect();
    let under = |name: &str| Some(folder.path().join(name).display().to_string());
    let own = Some(folder.path().display().to_string());
    assert_eq!(cwds, [own, under("sub/x"), Some("/abs".to_string()), None]);
}

#[test]
fn problems_of_all_files_are_reported_together() {
    let folder = folder(&[
        (
            "main.yaml",
            "graph: main\nnodes:\n  sub: {type: graph, file: sub.yaml}\n  none: {type: graph, file: none.yaml}\n\
             steps:\n  - {id: x, node: sub, depends_on: y}\n",
        ),
        ("sub.yaml", "graph: sub\nsteps:\n  - {id: a, nod: n}\n  - {id: b, node: n, depends_on: c}\n"),
    ]);
    assert_eq!(
        load_error(folder.path(), "main.yaml"),
        "DIR/main.yaml:4:29: \"DIR/none.yaml\": cannot be read: No such file or directory (os error 2)\n\
         DIR/main.yaml:6:36: Step 'x' depends on unknown step 'y'\n\
         DIR/sub.yaml:3:13: a step has no field \"nod\" (did you mean `node`?)\n\
         DIR/sub.yaml:4:34: Step 'b' depends on unknown step 'c' (did you mean 'a'?)"
    );
}

#[test]
fn circular_inclusion_names_the_chain() {
    let node = |file: &str| format!("graph: g\nnodes:\n  n: {{type: graph, file: {file}}}\nsteps: []\n");
    let folder = folder(&[
        ("a.yaml", &node("b.yaml")),
        ("b.yaml", &node("c/c.yaml")),
        ("c/c.yaml", &node("../b.yaml")),
    ]);
    assert_eq!(
        load_error(folder.path(), "a.yaml"),
        "DIR/c/c.yaml:3:26: circular inclusion: DIR/b.yaml → DIR/c/c.yaml → DIR/c/../b.yaml"
    );
    fs::write(folder.path().join("self.yaml"), node("self.yaml")).unwrap();
    assert_eq!(
        load_error(folder.path(), "self.yaml"),
        "DIR/self.yaml:3:26: circular inclusion: DIR/self.yaml → DIR/self.yaml"
    );
}

#[test]
fn exponential_inclusion_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for level in 0..14 {
        let next = level + 1;
        let text = format!(
            "graph: g\nnodes:\n  a: {{type: graph, file: {next}.yaml}}\n  b: {{type: graph, file: {next}.yaml}}\nsteps: []\n"
        );
        fs::write(folder.path().join(format!("{level}.yaml")), text).unwrap();
    }
    fs::write(folder.path().join("14.yaml"), "graph: g\nsteps: []\n").unwrap();
    let load_error = load_error(folder.path(), "0.yaml");
    assert!(
        load_error.contains("too many files: at most 16 levels and 500 files are supported"),
        "{load_error}"
    );
}

#[test]
fn unreadable_file_is_reported_where_it_is_used() {
    let folder = folder(&[
        (
            "main.yaml",
            "graph: main\nnodes:\n  a: {type: graph, file: none.yaml}\n  b: {type: graph, file: bad.yaml}\nsteps: []\n",
        ),
        ("bad.yaml", "graph: bad\nsteps:\n  - {id: x, node: n, nope: 1}\n"),
    ]);
    assert_eq!(
        load_error(folder.path(), "main.yaml"),
        "DIR/bad.yaml:3:22: a step has no field \"nope\" (did you mean `node`?)\n\
         DIR/main.yaml:3:26: \"DIR/none.yaml\": cannot be read: No such file or directory (os error 2)"
    );
    assert_eq!(
        load_error(folder.path(), "other.yaml"),
        "DIR/other.yaml: cannot be read: No such file or directory (os error 2)"
    );
    fs::write(folder.path().join("latin.yaml"), b"graph: \xe9\n").unwrap();
    assert_eq!(
        load_error(folder.path(), "latin.yaml"),
        "DIR/latin.yaml: not a text file: byte 7 is not UTF-8"
    );
    fs::write(folder.path().join("g.json"), "graph: a\nsteps: []\n").unwrap();
    assert_eq!(load_error(folder.path(), "g.json"), "DIR/g.json:1:1: invalid JSON: expected value");
}
