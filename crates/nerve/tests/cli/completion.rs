//! Completion of words in real shells, with the script of `nerve completions`.

use std::fs;
use std::path::Path;
use std::process::Command;

use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_testkit::skip;
use nerve_types::{Size, TsNs};

use crate::harness::{Home, NERVE};
use crate::recordings::START;
use crate::tty::Tty;

const ID: &str = "0195e3a1-77aa-7bcd-8000-0123456789ab";

/// Creates a home with a recording of the node `reviewer`.
fn home() -> Home {
    let home = Home::new();
    let store = Store::new(home.hermetic.root().join("nerve/recordings"));
    let path = store.prepare(ID, TsNs(START)).unwrap();
    fs::write(&path, "").unwrap();
    Meta { node: Some("reviewer".to_string()), ..Meta::default() }.store(&path).unwrap();
    home
}

/// Returns a command that finds `nerve` in PATH, as the script does.
fn shell(home: &Home, program: &str) -> Command {
    let mut command = home.hermetic.command(program);
    let folder = Path::new(NERVE).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{folder}:{path}")).current_dir(home.hermetic.work());
    command
}

/// Returns the words that bash offers after `line`, whose last word is incomplete.
fn bash_words(home: &Home, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <(nerve completions bash); COMP_WORDS=({}); COMP_CWORD={}; _clap_complete_nerve nerve '{}' ''; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
        words.last().unwrap()
    );
    let output = shell(home, "bash").args(["--norc", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_and_names() {
    let home = home();
    assert_eq!(bash_words(&home, "nerve doct"), ["doctor"]);
    assert_eq!(bash_words(&home, "nerve view rev"), ["reviewer"]);
    assert_eq!(bash_words(&home, "nerve recording export 0195"), [ID]);
    assert_eq!(bash_words(&home, "nerve new --profile clau"), ["claude"]);
    fs::write(home.hermetic.work().join("run.ahr"), "").unwrap();
    assert_eq!(bash_words(&home, "nerve view run"), ["run.ahr"]);
    // Without a server there are no nodes, and no error.
    assert_eq!(bash_words(&home, "nerve send rev"), [""]);
    assert!(home.ok(&["server", "list"]).lines().count() <= 1, "no server was started");
}

#[test]
fn bash_completes_names_of_a_running_server() {
    let home = Home::with_shell();
    home.ok(&["session", "create", "night"]);
    assert_eq!(bash_words(&home, "nerve send s"), ["sh"]);
    assert_eq!(bash_words(&home, "nerve attach s"), ["sh"]);
    assert_eq!(bash_words(&home, "nerve send --session n"), ["night"]);
    assert_eq!(bash_words(&home, "nerve server stop d"), ["default"]);
    assert_eq!(bash_words(&home, "nerve send --server missing s"), [""]);
}

#[test]
fn fish_completes_names() {
    let home = home();
    let script = "nerve completions fish | source; complete -C 'nerve view rev'";
    let Ok(output) = shell(&home, "fish").args(["--no-config", "-c", script]).output() else {
        return skip("fish_completes_names", "fish is not installed");
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "reviewer\tnode\n", "{output:?}");
}

#[test]
fn zsh_completes_names() {
    let home = home();
    let mut zsh = shell(&home, "zsh");
    if zsh.arg("--version").output().is_err() {
        return skip("zsh_completes_names", "zsh is not installed");
    }
    let mut zsh = shell(&home, "zsh");
    zsh.args(["-f", "-i"]).env("PS1", "shell> ");
    let tty = Tty::with_stderr(zsh, Size::new(80, 24));
    tty.expect("shell>");
    tty.send("autoload -U compinit; compinit -u -D; source <(nerve completions zsh); echo loa''ded\r");
    tty.expect("loaded");
    tty.send("echo nerve; : nerve; nerve view rev\t");
    tty.expect("nerve view reviewer");
}

#[test]
fn unknown_requests_print_nothing() {
    let home = home();
    for (shell, words) in
        [("tcsh", &["--", "nerve", ""][..]), ("bash", &[]), ("bash", &["--", "nerve", "no-command", ""])]
    {
        let mut command = home.command(words);
        let done = home.run({
            command.env("NERVE_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "99");
            command
        });
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{shell} {words:?}");
    }
}
