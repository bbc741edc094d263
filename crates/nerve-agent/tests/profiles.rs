//! Tests of the profile registry: built-in profiles, overrides, and errors with line and column.

use std::path::Path;
use std::sync::Arc;

use nerve_agent::driver::{Delivery, Source};
use nerve_agent::profile::{BlockKind, Profiles};
use nerve_types::Origin;

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn all_built_in_profiles_load() {
    assert_eq!(
        Profiles::builtin().names(),
        [
            "claude", "codex", "copilot", "gemini", "generic", "kilo", "kimi", "opencode", "pi", "python",
            "qwen", "shell"
        ]
    );
}

#[test]
fn wire_names_are_stable() {
    use {BlockKind as B, Delivery as D, Origin as O, Source as S};
    let sources = [S::Exit, S::Hook, S::Mark, S::Title, S::Foreground, S::Screen, S::Quiet, S::Input];
    assert_eq!(sources.map(S::as_str).join(" "), "exit hook mark title foreground screen quiet input");
    assert_eq!([D::Typed, D::Submitted, D::Started].map(D::as_str), ["typed", "submitted", "started"]);
    let dialogs = [B::Trust, B::Login, B::Theme, B::Permission, B::Limit, B::Other];
    assert_eq!(dialogs.map(B::as_str).join(" "), "trust login theme permission limit other");
    let origins = [O::User, O::Api, O::Injected, O::Terminal];
    assert_eq!(origins.map(O::as_str).join(" "), "user api injected terminal");
}

#[test]
fn builtin_profiles_are_compiled_once() {
    let profile = |profiles: &Profiles| profiles.get("claude").unwrap();
    let (first, with_user) = (Profiles::builtin(), Profiles::with_user(std::iter::empty()).0);
    assert!(Arc::ptr_eq(&profile(&first), &profile(&Profiles::builtin())));
    assert!(Arc::ptr_eq(&profile(&first), &profile(&with_user)));
}

#[test]
fn profile_is_found_behind_paths_and_wrappers() {
    let profiles = Profiles::builtin();
    let name = |words: &[&str]| profiles.for_command(&argv(words)).unwrap().name.clone();
    assert_eq!(name(&["claude"]), "claude");
    assert_eq!(name(&["/opt/bin/claude", "--model", "x"]), "claude");
    assert_eq!(name(&["env", "A=b", "codex"]), "codex");
    assert_eq!(name(&["npx", "-y", "gemini"]), "gemini");
    assert_eq!(name(&["timeout", "60", "claude"]), "claude");
    assert_eq!(name(&["timeout", "-k", "5s", "-s", "KILL", "1.5m", "claude"]), "claude");
    assert_eq!(name(&["nice", "-n", "5", "env", "-u", "TMUX", "A=b", "/opt/a=b/gemini"]), "gemini");
    assert_eq!(name(&["sudo", "-u", "me", "--", "codex"]), "codex");
    assert_eq!(name(&["/usr/bin/nerve", "mock-agent", "--fast"]), "claude");
    assert_eq!(name(&["bash", "-c", "claude"]), "shell");
    assert_eq!(name(&["vim", "claude"]), "generic");
    assert_eq!(name(&["cat"]), "generic");
}

#[test]
fn argument_of_another_program_is_not_the_program() {
    let profiles = Profiles::builtin();
    let name = |words: &[&str]| profiles.for_command(&argv(words)).unwrap().name.clone();
    for words in [
        &["env", "cat", "claude"][..],
        &["env", "A=b", "vim", "claude"],
        &["timeout", "5", "grep", "claude"],
        &["sudo", "apt", "install", "codex"],
        &["npx", "-y", "cowsay", "gemini"],
        &["nerve", "doctor", "claude"],
        &["env", "A=b"],
    ] {
        assert_eq!(name(words), "generic", "{words:?}");
    }
}

#[test]
fn options_with_unknown_screens_are_found() {
    let claude = Profiles::builtin().get("claude").unwrap();
    let option = |words: &[&str], value: Option<&'static str>| {
        let variable = |name: &str| value.filter(|_| name == "CLAUDE_AX_SCREEN_READER");
        claude.unsupported_option(&argv(words), variable).map(str::to_string)
    };
    let flag = Some("--ax-screen-reader".to_string());
    assert_eq!(option(&["env", "A=b", "claude", "--ax-screen-reader"], None), flag);
    assert_eq!(option(&["claude", "--ax-screen-reader=true"], Some("0")), flag);
    assert_eq!(option(&["claude"], Some("1")), Some("CLAUDE_AX_SCREEN_READER".to_string()));
    for (words, value) in [
        (&["claude"][..], None),
        (&["claude"], Some("false")),
        (&["claude", "--", "--ax-screen-reader"], None),
        (&["cat", "--ax-screen-reader"], Some("1")),
    ] {
        assert_eq!(option(words, value), None, "{words:?} {value:?}");
    }
}

#[test]
fn settings_with_unknown_screens_are_found() {
    let claude = Profiles::builtin().get("claude").unwrap();
    let setting = |words: &[&str], env: &[(&'static str, &'static str)], files: &[(&str, &str)]| {
        let variable = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.to_string())
        };
        claude.unsupported_setting(&argv(words), variable, read).map(|setting| setting.to_string())
    };
    let (on, off) = (r#"{"axScreenReader":true}"#, r#"{"axScreenReader":false}"#);
    let (set, unset) = (
        r#"{"env":{"CLAUDE_AX_SCREEN_READER":"1"}}"#,
        r#"{"env":{"CLAUDE_AX_SCREEN_READER":"0"},"axScreenReader":true}"#,
    );
    let home = [("HOME", "/h")];
    let user = |text: &'static str| [("/h/.claude/settings.json", text)];
    for (words, env, files, place) in [
        (&["claude"][..], &home[..], &user(on)[..], "axScreenReader in /h/.claude/settings.json"),
        (&["claude"], &home, &user(set), "CLAUDE_AX_SCREEN_READER in /h/.claude/settings.json"),
        (
            &["claude"],
            &[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")],
            &[("/c/settings.json", on)],
            "axScreenReader in /c/settings.json",
        ),
        (&["env", "A=b", "claude", "--settings", on], &home, &[], "axScreenReader in --settings"),
        (&["claude", &format!("--settings={on}")], &home, &user(off), "axScreenReader in --settings"),
        (&["claude", "--settings", "mine.json"], &home, &[("mine.json", on)], "axScreenReader in --settings"),
        // Its own table precedes the variable.
        (
            &["claude"],
            &[("HOME", "/h"), ("CLAUDE_AX_SCREEN_READER", "0")],
            &user(set),
            "CLAUDE_AX_SCREEN_READER in /h/.claude/settings.json",
        ),
    ] {
        assert_eq!(setting(words, env, files).as_deref(), Some(place), "{words:?}");
    }
    for (words, env, files) in [
        (&["claude"][..], &home[..], &[][..]),
        (&["claude"], &home, &user("not JSON")),
        (&["claude"], &home, &user(r#"{"axScreenReader":"true"}"#)),
        (&["claude"], &home, &user(unset)),
        (&["claude", "--settings", off], &home, &user(on)),
        (&["claude", "--settings", on, "--settings", "{}"], &home, &[]),
        (&["claude", "--setting-sources", "project,local"], &home, &user(on)),
        (&["claude"], &[("HOME", "/h"), ("CLAUDE_AX_SCREEN_READER", "0")], &user(on)),
        (&["claude", "--", "--settings", on], &home, &[]),
        (&["cat", "--settings", on], &home, &user(on)),
    ] {
        assert_eq!(setting(words, env, files), None, "{words:?} {files:?}");
    }
}

#[test]
fn user_file_overrides_and_invalid_file_is_reported() {
    let own = "name = \"claude\"\nprograms = [\"my-claude\"]\n";
    let broken = "name = \"x\"\ncomposer = { layout = \"box\", prompt = '^[' }\n";
    let wrong = "name = \"y\"\n\n[timing]\nsettle = 3\n";
    let files = [("own.toml", own), ("broken.toml", broken), ("wrong.toml", wrong)];
    let (profiles, errors) = Profiles::with_user(files.into_iter());
    assert_eq!(profiles.get("claude").unwrap().programs, ["my-claude"]);
    assert!(profiles.get("x").is_none());
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(messages[0].starts_with("profile file 'broken.toml', line 2, column"), "{}", messages[0]);
    assert!(messages[0].contains("invalid pattern '^['"), "{}", messages[0]);
    assert!(
        messages[1].starts_with("profile file 'wrong.toml', line 4, column 1: unknown field `settle`"),
        "{}",
        messages[1]
    );
}
