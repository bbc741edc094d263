//! Tests of all forms in which a command selects a conversation.

use super::super::Profiles;
use super::{ConversationRef, SessionArgs};

const A: &str = "aaaaaaaa-1111-4111-8111-aaaaaaaaaaaa";
const B: &str = "bbbbbbbb-2222-4222-8222-bbbbbbbbbbbb";

fn forms(profile: &str) -> SessionArgs {
    Profiles::builtin().get(profile).unwrap().session.clone().unwrap()
}

/// Splits a line into words and replaces `A` and `B` by ids.
fn argv(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace("ID-A", A).replace("ID-B", B)).collect()
}

fn conversation(line: &str) -> ConversationRef {
    forms("claude").conversation(&argv(line))
}

fn a() -> ConversationRef {
    ConversationRef::Id(A.to_string())
}

#[track_caller]
fn based(line: &str, expected: &str) {
    assert_eq!(forms("claude").without_session_args(&argv(line)), argv(expected), "{line}");
}

#[test]
fn id_is_found_in_all_forms() {
    for line in [
        "claude --session-id ID-A",
        "claude --session-id=ID-A --model opus",
        "claude --resume ID-A",
        "claude --resume=ID-A",
        "claude -r ID-A",
        "claude -rID-A",
        "env X=y /opt/my/claude --model opus --resume ID-A",
        "claude --resume ID-B --fork-session --session-id ID-A",
        "claude --session-id=ID-A --fork-session -r ID-B",
        "claude --continue --fork-session --session-id ID-A",
    ] {
        assert_eq!(conversation(line), a(), "{line}");
    }
}

#[test]
fn resuming_and_new_commands_are_distinguished() {
    let goes_on = |profile: &str, line: &str| forms(profile).resumes(&argv(line));
    for line in ["claude --resume ID-A", "claude -c", "claude --continue --fork-session --session-id ID-A"] {
        assert!(goes_on("claude", line), "{line}");
    }
    for line in ["claude", "claude --session-id ID-A", "claude -- --resume ID-A", "bash -c 'claude -c'"] {
        assert!(!goes_on("claude", line), "{line}");
    }
    assert!(
        goes_on("opencode", "opencode -s ses_1") && goes_on("opencode", "opencode --session ses_1 --fork")
    );
}

#[test]
fn unspecified_conversation_is_not_guessed() {
    for line in [
        "claude --continue",
        "claude -c",
        "claude --resume",
        "claude --resume --model opus",
        "claude -r",
        "claude --resume some-name",
        "claude --resume=",
    ] {
        assert_eq!(conversation(line), ConversationRef::Unspecified, "{line}");
    }
    for line in ["claude --resume ID-A --fork-session", "claude -c --fork-session", "claude --fork-session"] {
        assert_eq!(conversation(line), ConversationRef::Fork, "{line}");
    }
    for line in [
        "claude",
        "claude --model opus",
        "claude --session-id",
        "claude -- --session-id ID-A",
        "claude --model=x -- --resume ID-A -c",
        "env -c claude",
        "nerve mock-agent --session-id ID-A",
        "bash -c claude --session-id ID-A",
    ] {
        assert_eq!(conversation(line), ConversationRef::New, "{line}");
    }
}

#[test]
fn base_has_no_session_id() {
    based(
        "claude --dangerously-skip-permissions --session-id abc123",
        "claude --dangerously-skip-permissions",
    );
    based("claude --session-id=abc123 --model opus", "claude --model opus");
}

#[test]
fn base_has_no_resume() {
    based("claude --resume old-session --fork-session", "claude");
    based("claude --resume=old --model opus", "claude --model opus");
    based("claude -r old -c", "claude");
    based("claude --continue --verbose", "claude --verbose");
    based("claude --resume --model opus", "claude --model opus");
    based("claude -rID-A", "claude");
}

#[test]
fn base_has_no_fork_session() {
    based("claude --fork-session --dangerously-skip-permissions", "claude --dangerously-skip-permissions");
}

#[test]
fn base_keeps_other_arguments() {
    based(
        "claude --dangerously-skip-permissions --model opus --session-id abc",
        "claude --dangerously-skip-permissions --model opus",
    );
    based("claude --session-id", "claude");
    based("claude --session-id abc -- --resume x", "claude -- --resume x");
    based("claude --session-id -- x", "claude -- x");
    based("env -c A=b claude -r ID-A --add-dir=/x", "env -c A=b claude --add-dir=/x");
    based("claude --resume-session-at=5 -cp", "claude --resume-session-at=5 -cp");
    based(
        "claude --settings {\"a\":\"--resume\"} --fork-session=no",
        "claude --settings {\"a\":\"--resume\"} --fork-session=no",
    );
}

#[test]
fn words_with_spaces_and_quotes_are_kept() {
    let words =
        ["/my tools/claude", "--append-system-prompt", "say \"--resume\" x", "--session-id", A, "it's"];
    let words = words.map(String::from);
    let base = forms("claude").without_session_args(&words);
    assert_eq!(base, ["/my tools/claude", "--append-system-prompt", "say \"--resume\" x", "it's"]);
    let forked = forms("claude").fork_command(&words, A, B, "").unwrap();
    assert_eq!(forked[..4], base);
    assert_eq!(forked[4..], ["--resume", A, "--fork-session", "--session-id", B]);
}

#[test]
fn id_is_inserted_after_program() {
    let started = |line: &str| forms("claude").start_command(&argv(line), B);
    assert_eq!(started("claude"), Some(argv("claude --session-id ID-B")));
    assert_eq!(
        started("env A=b /x/claude --model opus -- hello"),
        Some(argv("env A=b /x/claude --session-id ID-B --model opus -- hello"))
    );
    assert_eq!(
        started("claude --resume ID-A --fork-session"),
        Some(argv("claude --session-id ID-B --resume ID-A --fork-session"))
    );
    assert_eq!(started("claude -- -p"), Some(argv("claude --session-id ID-B -- -p")));
}

#[test]
fn id_is_not_inserted_where_unsupported() {
    for line in [
        "claude -p hello",
        "claude --print",
        "claude --model opus -p hello",
        "claude --session-id ID-A",
        "claude --resume ID-A",
        "claude --resume=ID-A",
        "claude --continue",
        "claude -r",
        "claude --bg task",
        "nerve mock-agent",
        "bash -c claude",
    ] {
        assert_eq!(forms("claude").start_command(&argv(line), B), None, "{line}");
    }
}

#[test]
fn fork_command_names_both_ids() {
    let forked = |line: &str| forms("claude").fork_command(&argv(line), A, B, "").map(|argv| argv.join(" "));
    let words = format!("--resume {A} --fork-session --session-id {B}");
    assert_eq!(forked("claude --model opus"), Some(format!("claude --model opus {words}")));
    assert_eq!(forked("claude --session-id ID-A"), Some(format!("claude {words}")));
    assert_eq!(forked("claude -c"), Some(format!("claude {words}")));
    assert_eq!(
        forked("claude --resume ID-B --fork-session --session-id ID-A"),
        Some(format!("claude {words}"))
    );
    assert_eq!(forked("claude -x -- now"), Some(format!("claude -x {words} -- now")));
    assert_eq!(forked("./my-claude.sh"), None);
    assert!(forms("claude").can_name_forks());
    let resumed = forms("claude").resume_command(&argv("claude -c --verbose -- x"), A);
    assert_eq!(resumed, Some(argv("claude --verbose --resume ID-A -- x")));
}

#[test]
fn other_agents_have_their_own_arguments() {
    let codex = forms("codex");
    assert_eq!(codex.conversation(&argv("codex --no-daemon resume ID-A")), a());
    assert_eq!(codex.conversation(&argv("codex fork ID-A")), ConversationRef::Fork);
    assert_eq!(codex.conversation(&argv("codex resume --last")), ConversationRef::Unspecified);
    assert_eq!(codex.conversation(&argv("codex -c model=\"o3\"")), ConversationRef::New);
    assert_eq!(codex.start_command(&argv("codex"), B), None);
    let forked = codex.fork_command(&argv("codex --no-daemon resume ID-B -c a=b"), A, B, "");
    assert_eq!(forked, Some(argv("codex --no-daemon -c a=b fork ID-A")));
    assert!(!codex.can_name_forks());

    let gemini = forms("gemini");
    assert_eq!(gemini.conversation(&argv("gemini --session-id ID-A")), a());
    assert_eq!(gemini.start_command(&argv("gemini -m x"), B), Some(argv("gemini --session-id ID-B -m x")));
    assert_eq!(gemini.start_command(&argv("gemini -p x"), B), None);
    let forked = gemini.fork_command(&argv("gemini -m x --session-id ID-A"), A, B, "/c/session-1.jsonl");
    assert_eq!(forked, Some(argv("gemini -m x --session-file /c/session-1.jsonl")));

    let opencode = forms("opencode");
    let words = argv("opencode --session ses_1aB -m a/b");
    assert_eq!(opencode.conversation(&words), ConversationRef::Id("ses_1aB".into()));
    assert_eq!(
        opencode.fork_command(&words, "ses_1aB", B, ""),
        Some(argv("opencode -m a/b --session ses_1aB --fork"))
    );
    assert_eq!(opencode.conversation(&argv("opencode --session ses_1 --fork")), ConversationRef::Fork);
    assert_eq!(opencode.conversation(&argv("opencode -c")), ConversationRef::Unspecified);

    let qwen = forms("qwen");
    let forked = argv("qwen -y --resume ID-A --fork-session");
    assert_eq!(qwen.fork_command(&argv("qwen -y --session-id ID-A"), A, B, ""), Some(forked.clone()));
    assert_eq!(qwen.conversation(&forked), ConversationRef::Fork);
    assert_eq!(qwen.start_command(&forked, B), None, "it excludes --session-id");
    assert_eq!(qwen.start_command(&argv("qwen -y"), B), Some(argv("qwen --session-id ID-B -y")));
}

#[test]
fn copilot_gets_an_id_and_resumes() {
    let copilot = forms("copilot");
    let started = argv("copilot --session-id ID-A --model m");
    assert_eq!(copilot.start_command(&argv("copilot --model m"), A), Some(started.clone()));
    assert_eq!(copilot.conversation(&started), ConversationRef::Id(A.into()));
    assert_eq!(copilot.start_command(&argv("copilot -p hello"), A), None, "it ends after the answer");
    assert_eq!(copilot.fork_command(&started, A, B, ""), None);
}

#[test]
fn kimi_resumes_and_chooses_its_ids() {
    let kimi = forms("kimi");
    let id = "session_f4bc98c3-e280-4929-bec9-96716016f930";
    assert_eq!(kimi.start_command(&argv("kimi -m fake"), A), None);
    let resumed = argv(&format!("kimi -m fake --session {id}"));
    assert_eq!(kimi.resume_command(&argv("kimi -m fake"), id), Some(resumed.clone()));
    assert_eq!(kimi.conversation(&resumed), ConversationRef::Id(id.into()));
    assert_eq!(kimi.conversation(&argv("kimi -c")), ConversationRef::Unspecified);
    assert_eq!(kimi.fork_command(&resumed, id, B, ""), None);
}

#[test]
fn ids_are_validated() {
    let claude = forms("claude");
    assert!(claude.is_id(A));
    for bad in
        ["", "abc", "aaaaaaaa-1111-4111-8111-aaaaaaaaaaag", "aaaaaaaa11114111-8111-aaaaaaaaaaaa-0", "../../x"]
    {
        assert!(!claude.is_id(bad), "{bad}");
    }
    let opencode = forms("opencode");
    assert!(opencode.is_id("ses_dfd842207ffeh0iMdIft273S40"));
    assert!(!opencode.is_id("--fork") && !opencode.is_id("a b") && !opencode.is_id(&"x".repeat(129)));
}

#[test]
fn fork_in_other_folder_sets_working_directory() {
    let moved = |agent: &str, line: &str| forms(agent).with_cwd(argv(line), "/new").join(" ");
    assert_eq!(moved("codex", "env A=b codex fork X -- now"), "env A=b codex fork X --cd /new -- now");
    assert_eq!(moved("codex", "codex fork X"), "codex fork X --cd /new");
    assert_eq!(moved("claude", "claude --resume X"), "claude --resume X", "works in the start folder");
}

#[test]
fn variables_of_wrappers_are_found() {
    let find = |line: &str| forms("claude").assignments(&argv(line));
    let config = ("CLAUDE_CONFIG_DIR".to_string(), "/x".to_string());
    assert_eq!(find("env CLAUDE_CONFIG_DIR=/x claude --model a=b"), Some(vec![config]));
    assert_eq!(find("claude A=b"), Some(Vec::new()));
    assert_eq!(find("./start-claude.sh"), None);
}
