//! Help, version, man pages.

use crate::harness::{Home, NERVE};

/// Collects all commands from the program's own help.
fn commands(home: &Home, path: &[&str], found: &mut Vec<Vec<String>>) {
    let args: Vec<&str> = path.iter().copied().chain(["-h"]).collect();
    let help = home.ok(&args);
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| line.starts_with("  ")).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        (!line.starts_with("   ") && name != "help").then(|| name.to_string())
    });
    let names: Vec<String> = names.collect();
    found.push(path.iter().map(ToString::to_string).collect());
    for name in &names {
        let below: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
        commands(home, &below, found);
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let home = Home::new();
    let mut found = Vec::new();
    for top in [
        "demo",
        "ask",
        "server",
        "snapshot",
        "doctor",
        "mock-model",
        "completions",
        "man",
        "replay",
        "branch-points",
        "export",
        "import",
        "inspect",
        "recordings",
        "pattern",
        "extract",
        "tmux",
        "wezterm",
    ] {
        commands(&home, &[top], &mut found);
    }
    assert!(found.len() > 25, "{found:?}");
    let groups = [
        "server",
        "server node",
        "server session",
        "server graph",
        "recordings",
        "pattern",
        "tmux",
        "wezterm",
    ];
    for path in found {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = home.ok(&args);
        assert!(help.contains("Usage: nerve"), "{path:?}: {help}");
        assert!(groups.contains(&path.join(" ").as_str()) || help.contains("EXAMPLES"), "{path:?}: {help}");
    }
    assert!(home.ok(&["--help"]).contains("EXIT CODES"));
    assert!(home.ok(&["mock-agent", "--help"]).contains("--onboarding"));
}

#[test]
fn old_names_work_and_are_not_advertised() {
    let home = Home::new();
    assert!(!home.ok(&["server", "--help"]).contains("channel"));
    let node = home.ok(&["server", "node", "--help"]);
    assert!(!node.contains("  send") && !node.contains("  delete"), "{node}");
    assert!(home.ok(&["server", "channel", "send", "--help"]).contains("Usage"));
}

#[test]
fn version_matches_the_package() {
    assert_eq!(Home::new().ok(&["--version"]), format!("nerve {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn misspelt_command_suggests_the_right_one() {
    let home = Home::new();
    home.nerve(&["sever"]).assert_stderr(2, &["sever", "server"]);
    home.nerve(&[]).assert_stderr(2, &["Usage"]);
    home.nerve(&["server", "node", "create", "a", "--backend", "telepathy"])
        .assert_stderr(2, &["telepathy", "pty", "bash"]);
    home.nerve(&["server", "node", "create", "a", "--cols", "1"]).assert_stderr(2, &["2..=1000"]);
    home.nerve(&["server", "node", "create", "a", "--env", "NOVALUE"]).assert_stderr(2, &["KEY=VALUE"]);
    home.nerve(&["server", "node", "wait", "a", "--timeout", "0"]).assert_stderr(2, &["more than 0"]);
    home.nerve(&["server", "start", "one", "--name", "two"]).assert_stderr(2, &["cannot be used with"]);
}

#[test]
fn man_pages_cover_all_commands() {
    let home = Home::new();
    assert!(home.ok(&["man"]).contains(".TH"));
    let dir = home.hermetic.work().join("man");
    home.ok(&["man", "--dir", dir.to_str().unwrap()]);
    let page = std::fs::read_to_string(dir.join("nerve-server-node-execute.1")).unwrap();
    assert!(page.contains("one turn at a time"), "{page}");
    assert!(!dir.join("nerve-server-channel.1").exists());
}

#[test]
fn closed_stdout_is_no_failure() {
    let home = Home::new();
    // The pipe's reader is closed before anything is written.
    let script = format!("{NERVE} cli-reference | true; echo \"${{PIPESTATUS[0]}}\"");
    let output = home.hermetic.command("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
}
