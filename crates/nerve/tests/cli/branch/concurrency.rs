//! Several branches of one session at once, and nodes whose creation was not confirmed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use nerve_testkit::wait_until;

use super::{Fixture, git, text};
use crate::harness::DEADLINE;

/// Creates branches concurrently, each with its own arguments.
fn branch_concurrently(fixture: &Fixture, args: &[Vec<String>]) -> Vec<serde_json::Value> {
    thread::scope(|scope| {
        let one = |args: &Vec<String>| {
            let args: Vec<String> =
                ["RECALL", "--at", "one"].map(String::from).into_iter().chain(args.clone()).collect();
            scope.spawn(move || fixture.branch_json(&args.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        let running: Vec<_> = args.iter().map(one).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn concurrent_branches_have_own_files_and_names() {
    for fixture in [Fixture::with_git(), Fixture::new()] {
        let fixture = fixture.with_two_turns();
        let to = fixture.home.hermetic.work().join("asked for/folder");
        let named = |name: &str| vec!["--node".to_string(), name.to_string()];
        let elsewhere = vec!["--to".to_string(), to.to_str().unwrap().to_string()];
        let made =
            branch_concurrently(&fixture, &[named("a"), named("b"), vec![], vec![], vec![], elsewhere]);
        let all = |field: &str| made.iter().map(|made| made[field].to_string()).collect::<BTreeSet<_>>();
        assert_eq!((all("cwd").len(), all("node_id").len()), (6, 6), "{made:?}");
        for made in &made {
            let cwd = PathBuf::from(made["cwd"].as_str().unwrap());
            assert_eq!(
                (text(cwd.join("file")), text(cwd.join("new/untracked"))),
                ("one\n".into(), "one".into())
            );
            assert_eq!(made["response"]["text"], "You said: one", "{made}");
        }
        assert_eq!(fixture.nodes().as_array().map(Vec::len), Some(7));
        if fixture.folder().join(".git").exists() {
            assert_eq!(all("git_branch").len(), 6, "{made:?}");
            assert_eq!(
                git(&fixture.home, &fixture.folder(), &["branch", "--list", "nerve/*"]).lines().count(),
                6
            );
        }
        let names = fs::read_dir(fixture.branches()).unwrap().map(|entry| entry.unwrap().file_name());
        let folders = names.filter(|name| !name.to_string_lossy().ends_with(".json")).count();
        assert_eq!(folders, 5, "one is where it was asked for");
    }
}

/// Sits between clients and a server and drops the connection of a client that creates a node.
struct Interceptor {
    socket: PathBuf,
    server: PathBuf,
}

impl Interceptor {
    /// `forwards`: the server still receives the request.
    fn start(socket: &Path, forwards: bool) -> Interceptor {
        let server = socket.with_file_name("behind");
        fs::rename(socket, &server).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let behind = server.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let server = UnixStream::connect(&behind).unwrap();
                let (mut down, mut up) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut up, &mut down));
                thread::spawn(move || forward(&client, server, forwards));
            }
        });
        Interceptor { socket: socket.to_path_buf(), server }
    }

    fn remove(self) {
        fs::rename(self.server, self.socket).unwrap();
    }
}

fn forward(client: &UnixStream, mut server: UnixStream, forwards: bool) {
    for line in BufReader::new(client).lines().map_while(Result::ok) {
        let takes = line.contains("CREATE_NODE");
        if takes {
            let _ = client.shutdown(Shutdown::Both);
        }
        if (takes && !forwards) || writeln!(server, "{line}").is_err() {
            break;
        }
    }
}

#[test]
fn unconfirmed_node_keeps_its_files() {
    let fixture = Fixture::new().with_two_turns();
    let socket = fixture.home.hermetic.nerve_home().join("run/default.sock");
    for (name, forwards) in [("heard", true), ("unheard", false)] {
        let interceptor = Interceptor::start(&socket, forwards);
        let done = fixture.branch(&["RECALL", "--at", "one", "--node", name]);
        interceptor.remove();
        let mut folders = fs::read_dir(fixture.branches()).unwrap().map(|entry| entry.unwrap().path());
        let folder = folders.find(|path| path.is_dir() && done.stderr.contains(path.to_str().unwrap()));
        let folder = folder.unwrap_or_else(|| panic!("which folder? {done:?}"));
        let whether = format!("node '{name}' may have been started");
        done.assert_stderr(1, &[&whether, "nerve ls"]);
        assert_eq!(text(folder.join("file")), "one\n");
        if forwards {
            let is_there = || fixture.home.nerve(&["server", "node", "info", name]).code == 0;
            assert!(wait_until(DEADLINE, is_there), "{}", fixture.nodes());
            assert_eq!(PathBuf::from(fixture.home.metadata(name, "cwd")), folder.canonicalize().unwrap());
            assert_eq!(fixture.home.ok(&["server", "node", "execute", name, "RECALL"]), "You said: one\n");
        }
    }
}
