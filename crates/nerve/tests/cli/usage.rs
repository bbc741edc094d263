//! `nerve usage`: session files, logs of proxies, histories, prices.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Home, NERVE};

const ID: &str = "55555555-5555-4555-8555-555555555555";

/// A recording of an agent, and its session file.
struct Recorded {
    home: Home,
    session_file: PathBuf,
    /// Start of the recording.
    started: String,
}

impl Recorded {
    /// Records a program and marks it as an agent with a session file.
    fn new() -> Recorded {
        let home = Home::new();
        let session_file = home.hermetic.work().join(format!("{ID}.jsonl"));
        let started = record(&home, &session_file);
        Recorded { home, session_file, started }
    }

    /// Writes the session file: a prompt, and a response for each model and number of output tokens.
    fn write(&self, responses: &[(&str, u64)]) {
        let user = json!({ "type": "user", "uuid": "p", "timestamp": self.started, "sessionId": ID,
            "message": { "role": "user", "content": "x" } });
        let response = |(number, (model, output)): (usize, &(&str, u64))| {
            let usage = json!({ "input_tokens": 1_000_000, "output_tokens": output,
                "cache_read_input_tokens": 2_000_000, "cache_creation_input_tokens": 0 });
            json!({ "type": "assistant", "uuid": format!("a{number}"), "parentUuid": "p", "sessionId": ID,
                "timestamp": self.started,
                "message": { "id": format!("m{number}"), "model": model, "content": [], "usage": usage } })
            .to_string()
        };
        let lines = responses.iter().enumerate().map(response);
        let lines: Vec<String> = std::iter::once(user.to_string()).chain(lines).collect();
        fs::write(&self.session_file, lines.join("\n") + "\n").unwrap();
    }

    fn usage(&self, args: &[&str]) -> Value {
        usage(&self.home, args)
    }
}

fn usage(home: &Home, args: &[&str]) -> Value {
    home.nerve(&[&["usage", "--json"], args].concat()).json()
}

/// Records a program, gives it the session file of an agent, and returns its start.
fn record(home: &Home, session_file: &Path) -> String {
    home.ok(&["record", "--headless", "--", "true"]);
    let recording = home.nerve(&["recording", "list", "--json"]).json()["recordings"][0].clone();
    let meta_file = Path::new(recording["path"].as_str().unwrap()).with_extension("meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&meta_file).unwrap()).unwrap();
    meta["profile"] = "claude".into();
    meta["agentSession"] = ID.into();
    meta["transcript"] = session_file.to_str().unwrap().into();
    fs::write(&meta_file, meta.to_string()).unwrap();
    recording["started_at"].as_str().unwrap().to_string()
}

fn write_prices(home: &Home, text: &str) -> PathBuf {
    let path = PathBuf::from(home.nerve(&["usage", "--prices", "--json"]).json()["path"].as_str().unwrap());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn session_file_gives_tokens_turns_and_cost() {
    let recorded = Recorded::new();
    recorded.write(&[("claude-opus-5-5", 100_000), ("claude-opus-5-5", 0)]);
    let usage = recorded.usage(&[]);
    let row = &usage["rows"][0];
    let tokens = json!({ "input": 2_000_000, "output": 100_000, "cache_read": 4_000_000, "cache_write": 0 });
    assert_eq!(
        (&row["tokens"], &row["turns"], &row["responses"]),
        (&tokens, &json!(1), &json!(2)),
        "{usage:#}"
    );
    // 2 × 4 + 0.1 × 20 + 4 × 0.2.
    let cost = row["cost_usd"].as_f64().unwrap();
    assert!((cost - 10.8).abs() < 1e-9 && row["has_unpriced"] == false, "{usage:#}");
    assert!(row["node_id"].is_null() && row["recording_id"].is_string(), "{usage:#}");
    let table = recorded.home.ok(&["usage", "--by", "model"]);
    let row = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row, ["claude-opus-5-5", "2.00M", "100k", "4.00M", "0", "1", "$10.80"], "{table}");
    assert_eq!(recorded.usage(&["--by", "day"])["rows"].as_array().unwrap().len(), 1);
    assert!(recorded.usage(&["--since", "2100-01-01"])["rows"].as_array().unwrap().is_empty());
}

#[test]
fn missing_price_is_marked_and_named() {
    let recorded = Recorded::new();
    recorded.write(&[("fake-model", 10), ("claude-opus-5-5", 0)]);
    let usage = recorded.usage(&[]);
    assert!(usage["total"]["cost_usd"].as_f64().unwrap() > 0.0 && usage["total"]["has_unpriced"] == true);
    assert_eq!(usage["unpriced"], json!([{ "model": "fake-model", "tokens": 3_000_010 }]));
    let shown = recorded.home.nerve(&["usage"]);
    assert!(shown.stdout.contains("$4.40 + ?"), "{shown:?}");
    assert!(shown.stderr.contains("no price for 'fake-model' (3.00M tokens)"), "{shown:?}");
    let models = recorded.usage(&["--by", "model"]);
    let fake = models["rows"].as_array().unwrap().iter().find(|row| row["model"] == "fake-model").unwrap();
    assert_eq!((&fake["cost_usd"], &fake["has_unpriced"]), (&Value::Null, &json!(true)), "never 0");

    write_prices(
        &recorded.home,
        "[[model]]\nname = 'fake-*'\nsince = 2026-01-01\ninput = 1\noutput = 0\ncache_read = 0\n",
    );
    let usage = recorded.usage(&["--by", "model"]);
    assert_eq!((&usage["unpriced"], &usage["rows"][1]["cost_usd"]), (&json!([]), &json!(1.0)), "{usage:#}");
    let prices = recorded.home.ok(&["usage", "--prices"]);
    assert!(prices.contains("fake-*") && prices.contains("own") && prices.contains("gpt-5"), "{prices}");
}

#[test]
fn invalid_price_file_is_an_error_with_its_line() {
    let home = Home::new();
    let path = write_prices(&home, "[[model]]\nname = 'm'\nsince = 2026-01-01\ninput = -1\noutput = 1\n");
    let place = format!("{}:4:9: ", path.display());
    home.nerve(&["usage"]).assert_stderr(2, &[&place, "hint:"]);
    home.nerve(&["usage", "--prices"]).assert_stderr(2, &[&place]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    home.nerve(&["usage"]).assert_stderr(1, &["prices.toml", "hint:"]);
}

#[test]
fn damaged_session_file_is_reported_and_the_rest_counts() {
    let recorded = Recorded::new();
    recorded.write(&[("m", 1)]);
    let text = fs::read_to_string(&recorded.session_file).unwrap();
    fs::write(&recorded.session_file, format!("\0\0\0\n{text}{{\"type\":\"assist")).unwrap();
    assert_eq!(recorded.usage(&[])["total"]["responses"], 1);
    recorded.home.nerve(&["usage"]).assert_stderr(0, &["1 damaged lines are not counted", ID]);
    fs::write(&recorded.session_file, [0xff, b'\n']).unwrap();
    recorded.home.nerve(&["usage"]).assert_stderr(0, &[ID, "no usage found"]);
    fs::remove_file(&recorded.session_file).unwrap();
    recorded.home.nerve(&["usage"]).assert_stderr(0, &["1 recorded agent has no session file"]);
}

#[test]
fn responses_before_and_after_the_recording_do_not_count() {
    let recorded = Recorded::new();
    recorded.write(&[("m", 1)]);
    let text = fs::read_to_string(&recorded.session_file).unwrap();
    let other = |time: &str, id: &str| {
        let line = text.lines().last().unwrap();
        line.replace(&recorded.started, time).replace("\"m0\"", id)
    };
    let (early, late) = (other("2001-01-01T00:00:00Z", "\"m8\""), other("2100-01-01T00:00:00Z", "\"m9\""));
    fs::write(&recorded.session_file, format!("{early}\n{text}{late}\n")).unwrap();
    assert_eq!(recorded.usage(&[])["total"]["responses"], 1);
    // The clock was set back while the agent worked.
    fs::write(&recorded.session_file, format!("{text}{early}\n")).unwrap();
    assert_eq!(recorded.usage(&[])["total"]["responses"], 2);
    // A resumed conversation has one file, and a copy repeats its messages.
    record(&recorded.home, &recorded.session_file);
    assert_eq!(recorded.usage(&[])["total"]["responses"], 2);
    let copy =
        recorded.session_file.with_file_name("copies").join(recorded.session_file.file_name().unwrap());
    fs::create_dir(copy.parent().unwrap()).unwrap();
    fs::copy(&recorded.session_file, &copy).unwrap();
    record(&recorded.home, &copy);
    assert_eq!(recorded.usage(&[])["total"]["responses"], 2);
}

#[test]
fn proxy_log_counts_instead_of_session_file() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.ok(&["new", "m", "-c", &format!("{NERVE} mock-agent"), "--profile", "claude"]);
    home.ok(&["send", "m", "hello"]);
    home.ok(&["stop", "m"]);
    let log = home.hermetic.nerve_home().join("proxies/log/default/default/m.jsonl");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let reply = |time: &str, turn: Value| {
        json!({ "type": "reply", "time": time, "node": "m", "turn": turn, "model": "claude-opus-5-5",
            "cost_usd": 0.5, "tokens": { "input": 1, "output": 2, "cache_read": 3, "cache_write": 4 } })
    };
    let recording = home.nerve(&["recording", "list", "--json"]).json()["recordings"][0].clone();
    let now = recording["started_at"].as_str().unwrap();
    let lines = [
        json!({ "type": "request", "time": now, "turn": 1 }),
        reply(now, json!(1)),
        reply(now, Value::Null),
        // Another node of this name.
        reply(now, json!(5)),
        reply(now, json!(1)),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&log, format!("{}\ndamaged\n{{\"type\":", lines.join("\n"))).unwrap();
    let usage = usage(&home, &["m"]);
    let row = &usage["rows"][0];
    assert_eq!(
        (&row["node_id"], &row["responses"], &row["turns"]),
        (&json!("m"), &json!(4), &json!(3)),
        "{usage:#}"
    );
    assert_eq!((&row["cost_usd"], &usage["missing_recordings"]), (&json!(2.0), &json!(0)), "{usage:#}");
    assert_eq!(usage["problems"].as_array().unwrap().len(), 1, "{usage:#}");
    home.nerve(&["usage", "m", "--since", "2100-01-01"]).assert_stderr(0, &["no usage found"]);
    let table = home.ok(&["usage", "--by", "session"]);
    assert!(table.contains("default"), "{table}");
}

#[test]
fn unknown_nodes_and_options_are_errors() {
    let home = Home::new();
    home.nerve(&["usage"]).assert_stderr(0, &["no usage found"]);
    home.nerve(&["usage", "missing"]).assert_stderr(3, &["missing", "hint:"]);
    home.nerve(&["usage", "a@b"]).assert_code(2);
    home.nerve(&["usage", "--since", "soon"]).assert_stderr(2, &["--since", "yesterday"]);
    home.nerve(&["usage", "--by", "moon"]).assert_stderr(2, &["node", "day"]);
    home.nerve(&["usage", "--prices", "--by", "day"]).assert_stderr(2, &["--prices"]);
}
