//! Recordings of another machine: copied by ranges, continued, and never mixed.

use std::fs;
use std::path::PathBuf;

use nerve_testkit::wait_until;

use super::ssh_server::{Client, SshServer};
use crate::harness::{DEADLINE, Home};

const MACHINE: &str = "laptop";
const NODE: &str = "laptop/default/sh";

impl Client<'_> {
    /// Returns the lines of a recording.
    fn lines(&self, name: &str) -> String {
        self.nerve(&["replay", name, "--fast", "--no-colors"]).stdout
    }

    /// Returns the only copy of a recording.
    fn copy(&self) -> PathBuf {
        let folder = self.home.hermetic.nerve_home().join("cache/recordings/laptop");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let copies: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|end| end == "ahr")).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        copies[0].clone()
    }
}

#[test]
fn recording_of_another_machine_is_copied_and_continued() {
    let (here, laptop) = (Home::new(), Home::with_shell());
    let (_sshd, client) = SshServer::add_laptop(&here, &laptop, "");
    let send = |text: &str| client.ok(&["send", NODE, text]);
    let path = laptop.recording_of("sh");
    // More than a range, and more than an answer.
    client.nerve(&["send", NODE, "head -c 1600000 /dev/urandom | base64 -w 100; echo first-part"]);
    assert!(wait_until(DEADLINE, || client.lines(NODE).contains("first-part")));
    let length = || fs::metadata(client.copy()).unwrap().len();
    let first = length();
    assert!(first > 1 << 20, "{first}");
    send("echo second-part");
    assert!(wait_until(DEADLINE, || client.lines(NODE).contains("second-part")));
    assert!(length() > first);

    client.ok(&["stop", NODE]);
    let has_all = || {
        let lines = client.lines(NODE);
        lines.contains("first-part") && lines.contains("second-part")
    };
    let is_equal = || has_all() && fs::read(client.copy()).unwrap() == fs::read(&path).unwrap();
    assert!(wait_until(DEADLINE, is_equal));
    let original = fs::read(&path).unwrap();
    // A copy that a cut left shorter is continued, and other content is replaced.
    let other: Vec<u8> = vec![b'x'; original.len() + 10];
    let half = original.len() / 2;
    for content in [&original[..half], &original[..7], &original[..0], &other[..], &other[..half]] {
        fs::write(client.copy(), content).unwrap();
        assert!(has_all());
        assert_eq!(fs::read(client.copy()).unwrap(), original);
    }
    let id = client.copy().file_stem().unwrap().to_str().unwrap().to_string();
    for name in [format!("machine://{MACHINE}/{id}"), format!("{NODE}@1")] {
        let exported = client.ok(&["recording", "export", &name, "--format", "txt"]);
        assert!(exported.contains("second-part"), "{name}");
    }
    client.ok(&["recording", "inspect", NODE, "--blocks"]);
    client.nerve(&["replay", "laptop/default/absent"]).assert_code(3);
    client.nerve(&["replay", "absent/default/sh"]).assert_stderr(3, &["absent", "laptop"]);
    // The recordings of this machine are not those of others.
    here.nerve(&["replay", "local/default/sh"]).assert_code(3);
    here.nerve(&["replay", &id]).assert_code(3);
}
