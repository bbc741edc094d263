//! `nerve pattern`: two of the built-in agents on a server.

use std::fs;
use std::process::Stdio;

use nerve_testkit::harness::{CommandOutput, signal};
use nerve_testkit::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Home, NERVE};

/// Starts a server with two agents that echo their prompts.
fn pair(one: &str, two: &str) -> Home {
    let home = Home::new();
    home.ok(&["server", "start"]);
    let agent = format!("{NERVE} mock-agent");
    for name in [one, two] {
        home.ok(&["server", "node", "create", name, "-c", &agent, "--profile", "claude"]);
    }
    home
}

/// Options with which the coach accepts in round 2: it echoes the line with the acceptance phrase.
const COACH: [&str; 4] =
    ["--coach-template", "look:\nround {round} is fine\n", "--accept", "round 2 is fine"];

fn dev_coach(home: &Home, args: &[&str]) -> CommandOutput {
    home.nerve(&[&["pattern", "dev-coach", "--dev", "dev", "--coach", "coach"], args].concat())
}

#[test]
fn developer_works_until_coach_accepts() {
    let home = pair("dev", "coach");
    let args =
        [&["--task", "count", "--dev-template", "{task} {round} < {coach_message}"], &COACH[..]].concat();
    let done = dev_coach(&home, &args);
    let transcript = "round 1, dev 'dev': You said: count 1 < Please begin with the task.";
    done.assert_stderr(
        0,
        &[
            transcript,
            "round 1, coach 'coach': You said: look:",
            "round 2, dev 'dev'",
            "accepted after 2 rounds",
        ],
    );
    assert!(done.stdout.starts_with("You said: count 2 < You said: look:"), "{done:?}");

    let result = dev_coach(&home, &[&args[..], &["--json"]].concat());
    assert_eq!(result.code, 0, "{result:?}");
    let result = result.json();
    assert_eq!((&result["completed"], &result["rounds"]), (&json!(true), &json!(2)));
    let roles: Vec<&Value> = result["history"].as_array().unwrap().iter().map(|turn| &turn["role"]).collect();
    assert_eq!(roles, ["dev", "coach", "dev", "coach"]);
    assert_eq!(result["final_dev_message"], result["history"][2]["message"]);
    assert!(result["final_coach_message"].as_str().unwrap().contains("round 2 is fine"), "{result:#}");
}

#[test]
fn coach_that_does_not_accept_exits_with_1() {
    let home = pair("dev", "coach");
    let task = home.hermetic.home().join("task.md");
    fs::write(&task, "from a file {coach_message}\n").unwrap();
    let file = format!("@{}", task.display());
    let done = dev_coach(&home, &["--task", &file, "--max-rounds", "1", "--json"]);
    done.assert_stderr(1, &["'coach'", "1 round", "--max-rounds"]);
    let result = done.json();
    assert_eq!((&result["completed"], &result["rounds"]), (&json!(false), &json!(1)));
    // The agent's echo contains the acceptance phrase.
    assert!(
        result["final_coach_message"].as_str().unwrap().contains("I ACCEPT TASK COMPLETION"),
        "{result:#}"
    );
    assert!(
        result["final_dev_message"].as_str().unwrap().contains("from a file {coach_message}"),
        "{result:#}"
    );

    let args =
        ["pattern", "dev-coach", "--dev", "dev", "--coach", "coach", "--max-rounds", "1", "--task", "-"];
    let done = home.nerve_with(&args, "from standard input\n");
    done.assert_stderr(1, &["accept"]);
    assert!(done.stdout.contains("from standard input"), "{done:?}");
}

#[test]
fn missing_nodes_are_reported_before_typing() {
    let home = pair("dev", "coach");
    let before = home.read("dev");
    let done = home.nerve(&["pattern", "dev-coach", "--dev", "dev", "--coach", "absent", "--task", "x"]);
    done.assert_stderr(3, &["absent"]);
    dev_coach(&home, &["--task", "@no/such/file"]).assert_stderr(1, &["no/such/file"]);
    dev_coach(&home, &["--task", " "]).assert_code(2);
    dev_coach(&home, &["--task", "x", "--accept", " "]).assert_stderr(2, &["blank"]);
    dev_coach(&home, &["--task", "x", "--max-rounds", "0"]).assert_stderr(2, &["--max-rounds"]);
    dev_coach(&home, &["--task", "x", "-s", "other"]).assert_stderr(3, &["nerve server start other"]);
    dev_coach(&home, &["--task", "x", "--session", "other"]).assert_stderr(3, &["other"]);
    assert_eq!(home.read("dev"), before);
}

#[test]
fn blocked_or_late_turn_ends_pattern_with_transcript() {
    let home = pair("dev", "coach");
    let fine = ["--dev-template", "{task}", "--coach-template"];
    let done = dev_coach(&home, &[&["--task", "x"], &fine[..], &["PERMIT", "--json"]].concat());
    done.assert_stderr(5, &["1. Yes"]);
    let transcript = done.json();
    assert_eq!((&transcript["completed"], &transcript["error_type"]), (&json!(false), &json!("blocked")));
    assert_eq!(transcript["history"], json!([{ "round": 1, "role": "dev", "message": "You said: x" }]));
    let late = dev_coach(&home, &[&["--task", "STALL 600", "--timeout", "0.5"], &fine[..], &["y"]].concat());
    late.assert_stderr(4, &["dev"]);
}

#[test]
fn ctrl_c_interrupts_the_working_node() {
    let home = pair("dev", "coach");
    home.ok(&["server", "node", "wait", "dev"]);
    let mut command =
        home.command(&["pattern", "dev-coach", "--dev", "dev", "--coach", "coach", "--task", "STALL 6000 x"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let busy = || home.info("dev")["state"] == "busy" && home.read("dev").contains("Pondering");
    assert!(wait_until(DEADLINE, busy), "{}", home.read("dev"));
    signal(child.id(), Signal::INT);
    let done = CommandOutput::new(&child.wait_with_output().unwrap());
    done.assert_stderr(130, &["interrupting", "interrupted"]);
    // The node is ready again, long before its ten minutes are over.
    let next = home.nerve(&["server", "node", "execute", "dev", "hello", "--timeout", "20"]);
    assert_eq!(next.code, 0, "{next:?}\n{}", home.read("dev"));
}

#[test]
fn two_agents_debate() {
    let home = pair("one", "two");
    let debate = [
        "pattern",
        "debate",
        "--a",
        "one",
        "--b",
        "two",
        "--topic",
        "tabs",
        "--position-a",
        "yes",
        "--position-b",
        "no",
        "--rounds",
        "2",
        "--max-words",
        "7",
        "--template",
        "{position} {round} {max_words} < {opponent_message}",
    ];
    let done = home.nerve(&debate);
    done.assert_stderr(
        0,
        &["round 1, a 'one': You said: yes 1 7 < Let's debate: tabs", "round 2, b 'two': You said: no 2 7 <"],
    );
    let (a, b) = done.stdout.split_once("\nB, 'two'\n").unwrap();
    assert!(
        a.starts_with("A, 'one'\nYou said: yes 2 7 <") && b.starts_with("You said: no 2 7 <"),
        "{done:?}"
    );
    let result = home.nerve(&[&debate[..], &["--json"]].concat()).json();
    assert_eq!((&result["topic"], &result["rounds"]), (&json!("tabs"), &json!(2)));
    let turns: Vec<(&Value, &Value)> =
        result["turns"].as_array().unwrap().iter().map(|turn| (&turn["agent"], &turn["position"])).collect();
    let (one, two) = ((&json!("one"), &json!("yes")), (&json!("two"), &json!("no")));
    assert_eq!(turns, [one, two, one, two]);
    assert_eq!(result["final_b"], result["turns"][3]["message"]);
}
