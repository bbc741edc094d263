//! `nerve web`, and the console in a real browser.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nerve_record::ahr::{Body, Record, Segment, Writer};
use nerve_record::meta::Meta;
use nerve_record::snapshots::{SnapshotLine, append};
use nerve_record::store::Store;
use nerve_testkit::harness::{CommandOutput, browser_script};
use nerve_testkit::wait_until;
use nerve_types::{Size, TsNs};

use crate::harness::{DEADLINE, Home, NERVE};
use crate::tty::Tty;

#[test]
fn web_starts_server_and_prints_a_new_link_each_time() {
    let home = Home::new();
    let login = home.nerve(&["web", "--role", "view", "--json"]).json();
    let url = login["url"].as_str().unwrap();
    let (page, code) = url.split_once("#code=").unwrap();
    assert!(page.starts_with("http://127.0.0.1:") && page.ends_with("/web/"), "{url}");
    assert_eq!((code.len(), login["role"].as_str()), (32, Some("view")));
    let printed = home.ok(&["web", "--no-open"]);
    assert!(printed.starts_with(page) && !printed.contains(code), "{printed}");
    assert_eq!(home.nerve(&["web", "sessions", "list", "--json"]).json()["sessions"], serde_json::json!([]));
    home.nerve(&["web", "sessions", "revoke", "abc"]).assert_stderr(3, &["session 'abc'", "sessions list"]);
}

#[test]
fn link_is_opened_on_a_desktop() {
    let home = Home::new();
    let folder = home.hermetic.work().join("bin");
    let (opener, opened) = (folder.join("xdg-open"), folder.join("opened"));
    fs::create_dir(&folder).unwrap();
    fs::write(&opener, "#!/bin/sh\nprintf '%s\\n' \"$1\" >> \"${0%/*}/opened\"\n").unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let print = |args: &[&str], display: &str| {
        let mut command = home.command(args);
        command.env("PATH", &path).env("DISPLAY", display).env_remove("WAYLAND_DISPLAY");
        home.run(command).success()
    };
    // Neither of them opens anything: otherwise there would be more than the third link.
    print(&["web"], "");
    print(&["web", "--no-open"], ":7");
    let link = print(&["web"], ":7");
    let is_opened = || fs::read_to_string(&opened).is_ok_and(|text| text.ends_with('\n'));
    assert!(wait_until(DEADLINE, is_opened));
    assert_eq!(fs::read_to_string(&opened).unwrap(), link);
}

#[test]
fn link_through_a_tunnel_is_also_a_qr_code() {
    let home = Home::new();
    let url = "https://host.example:8443";
    let login = home.nerve(&["web", "--url", url, "--json"]).json();
    assert!(login["url"].as_str().unwrap().starts_with("https://host.example:8443/web/#code="), "{login}");
    let mut web = Tty::with_stderr(home.command(&["web", "--url", url]), Size::new(100, 50));
    web.expect("https://host.example:8443/web/#code=");
    web.expect("\u{2580}");
    assert_eq!(web.wait_for_exit(), Some(0));
    for invalid in ["host.example", "ftp://host.example", "https://host.example/path"] {
        home.nerve(&["web", "--url", invalid]).assert_stderr(2, &["expected"]);
    }
    home.nerve(&["web", "--url", "https://other.example"])
        .assert_stderr(1, &["host 'other.example'", "--keep-nodes"]);
    // The server accepts the name: it was started for it.
    let local = home.nerve(&["web", "--json"]).json();
    let (address, _) = local["url"].as_str().unwrap()["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /web/ HTTP/1.1\r\nHost: host.example:8443\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[test]
fn share_is_listed_and_revoked() {
    let home = Home::new();
    home.ok(&["server", "start", "--http", "127.0.0.1:0"]);
    home.ok(&["new", "job", "--backend", "bash"]);
    let share = home.nerve(&["share", "default/job", "--for", "30m", "--json"]).json();
    assert!(share["url"].as_str().unwrap().contains("/web/#share="), "{share}");
    assert_eq!((share["session_id"].as_str(), share["node_id"].as_str()), (Some("default"), Some("job")));
    let id = share["share_id"].as_str().unwrap();
    let listed = home.ok(&["web", "shares", "list"]);
    assert!(listed.contains(id) && listed.contains("default/job"), "{listed}");
    home.ok(&["web", "shares", "revoke", &id[..6]]);
    assert_eq!(home.nerve(&["web", "shares", "list", "--json"]).json()["shares"], serde_json::json!([]));
    home.nerve(&["web", "shares", "revoke", id]).assert_stderr(3, &["shares list"]);
    home.nerve(&["share", "nosuch"]).assert_stderr(3, &["nosuch"]);
    home.nerve(&["share", "job", "--for", "31d"]).assert_stderr(2, &["30d"]);
}

#[test]
fn server_without_http_is_explained() {
    let home = Home::new();
    home.ok(&["server", "start"]);
    home.nerve(&["web"]).assert_stderr(1, &["nerve server stop default --keep-nodes"]);
    home.nerve(&["web", "-s", "tcp://127.0.0.1:1"]).assert_code(2);
}

/// Runs a script in a browser that is logged in with a new link.
fn run_in_browser(home: &Home, test: &str, script: &str) {
    run_in_browser_with(home, test, script, &[]);
}

/// Runs a script like [`run_in_browser`], with further environment variables.
pub(crate) fn run_in_browser_with(home: &Home, test: &str, script: &str, variables: &[(&str, &str)]) {
    let link = home.ok(&["web", "--no-open"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/web").join(script);
    let Some(mut command) = browser_script(&home.hermetic, test, &script, link.trim()) else { return };
    command.env("NERVE_PROGRAM", NERVE).envs(variables.iter().copied());
    // The script starts a browser and opens many pages.
    let done = assert_cmd::Command::from_std(command).timeout(5 * DEADLINE / 2).output().unwrap();
    let done = CommandOutput::new(&done);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn page_renders_markdown_as_transcripts_do() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = std::process::Command::new("node");
    command
        .arg(crates.join("nerve/tests/cli/web/markdown.mjs"))
        .args([crates.join("nerve-server/web"), crates.join("nerve-markdown/tests/fixtures/cases.json")]);
    if std::process::Command::new("node").arg("--version").output().is_err() {
        return nerve_testkit::skip("page_renders_markdown_as_transcripts_do", "there is no node");
    }
    let done =
        CommandOutput::new(&assert_cmd::Command::from_std(command).timeout(DEADLINE).output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
}

/// Starts a server with HTTP.
fn with_http() -> Home {
    let home = Home::new();
    home.ok(&["server", "start", "--http", "127.0.0.1:0"]);
    home
}

#[test]
fn console_works_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    let agent = format!("{NERVE} mock-agent --onboarding");
    home.ok(&["new", "agent", "-c", &agent, "--profile", "claude"]);
    run_in_browser(&home, "console_works_in_a_browser", "console.mjs");
}

#[test]
fn conversation_is_read_and_continued_in_a_browser() {
    let home = with_http();
    run_in_browser(&home, "conversation_is_read_and_continued_in_a_browser", "conversation.mjs");
}

#[test]
fn node_is_followed_and_controlled_in_a_browser() {
    let home = with_http();
    run_in_browser(&home, "node_is_followed_and_controlled_in_a_browser", "node_view.mjs");
}

#[test]
fn runs_are_followed_and_answered_in_a_browser() {
    run_in_browser(&with_http(), "runs_are_followed_and_answered_in_a_browser", "runs.mjs");
}

/// Records a session of yesterday: a turn every 4 seconds from the first second on, a resize, and a pause of ten minutes
/// before the last line. Its snapshot has no files.
fn record_yesterday(home: &Home) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let started = TsNs((now - 86_400) * 1_000_000_000);
    let at = |seconds: u64| started + Duration::from_secs(seconds);
    let path =
        Store::new(home.hermetic.root().join("nerve/recordings")).prepare("yesterday", started).unwrap();
    let mut segment = Segment::new(0);
    let push = |segment: &mut Segment, seconds, text: &str| {
        let body = Body::Data { off: segment.end(), bytes: text.as_bytes() };
        segment.push(&Record { at: at(seconds), body }).unwrap();
    };
    segment.push(&Record { at: started, body: Body::Resize { cols: 80, rows: 24 } }).unwrap();
    push(&mut segment, 0, "\x1b[1;35m\u{2733} Claude Code\x1b[0m in ~/parser\r\n\r\n");
    let mut anchor_byte = 0;
    for turn in 1..=45 {
        let begin = 4 * turn - 3;
        push(&mut segment, begin, &format!("\x1b[1m> Prompt number {turn}\x1b[0m\r\n"));
        if turn == 25 {
            anchor_byte = segment.end();
        }
        if turn == 30 {
            segment.push(&Record { at: at(begin), body: Body::Resize { cols: 100, rows: 28 } }).unwrap();
        }
        push(&mut segment, begin + 2, &format!("\x1b[32m\u{25cf}\x1b[0m Answer number {turn}.\r\n\r\n"));
    }
    push(&mut segment, 800, "All tests pass.\r\n");
    Writer::create(&path).unwrap().append(&segment.seal(4, true)).unwrap();
    let snapshot = SnapshotLine {
        id: 1,
        ts_ns: at(98).0,
        label: Some("before the parser".into()),
        kind: "manual".into(),
        anchor_byte,
        files: None,
    };
    append(&path, &snapshot).unwrap();
    let work = home.hermetic.work().canonicalize().unwrap();
    let meta = Meta {
        started_at: started,
        ended_at: Some(at(800)),
        cmd: vec![work.join("claude").to_str().unwrap().into()],
        cwd: Some(work),
        node: Some("parser".into()),
        server: Some("default".into()),
        profile: Some("claude".into()),
        conversation_id: Some("11111111-1111-4111-8111-111111111111".into()),
        ..Meta::default()
    };
    meta.store(&path).unwrap();
}

/// Records three rows, a minute apart, and damages the second one.
fn record_damaged(home: &Home) {
    let started = TsNs(1_700_000_000_000_000_000);
    let path = Store::new(home.hermetic.root().join("nerve/recordings")).prepare("damaged", started).unwrap();
    let mut writer = Writer::create(&path).unwrap();
    let (mut off, mut begins) = (0, Vec::new());
    for (minute, text) in (0..).zip(["before the damage\r\n", "lost\r\n", "after the damage\r\n"]) {
        let at = started + Duration::from_secs(60 * minute);
        let mut segment = Segment::new(off);
        segment.push(&Record { at, body: Body::Resize { cols: 80, rows: 24 } }).unwrap();
        segment.push(&Record { at, body: Body::Data { off, bytes: text.as_bytes() } }).unwrap();
        off = segment.end();
        begins.push(writer.len());
        writer.append(&segment.seal(4, minute == 2)).unwrap();
    }
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(begins[1].midpoint(begins[2])).unwrap()] ^= 0xff;
    fs::write(&path, bytes).unwrap();
    Meta { started_at: started, cmd: vec!["bash".into()], ..Meta::default() }.store(&path).unwrap();
}

#[test]
fn recordings_are_played_in_a_browser() {
    let home = with_http();
    record_yesterday(&home);
    record_damaged(&home);
    run_in_browser(&home, "recordings_are_played_in_a_browser", "timeline.mjs");
}

#[test]
fn console_works_over_tls_in_a_browser() {
    let home = Home::new();
    let (cert, key) = home.write_certificate();
    home.ok(&["server", "start", "--http", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "console_works_over_tls_in_a_browser", "tls.mjs");
}

#[test]
fn many_nodes_and_two_answers_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "many_nodes_and_two_answers_in_a_browser", "faults.mjs");
}

#[test]
fn page_survives_breaks_of_the_network_and_the_server() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "page_survives_breaks_of_the_network_and_the_server", "reconnect.mjs");
}

#[test]
fn input_of_phones_is_handled_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "input_of_phones_is_handled_in_a_browser", "input.mjs");
}

#[test]
fn late_replies_and_long_texts_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "late_replies_and_long_texts_in_a_browser", "requests.mjs");
}

#[test]
fn views_are_accessible_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "views_are_accessible_in_a_browser", "accessibility.mjs");
}

#[test]
fn keyboard_is_enough_in_a_browser() {
    let home = with_http();
    home.ok(&["new", "sh", "-c", "bash --norc", "--env", "PS1=$ "]);
    run_in_browser(&home, "keyboard_is_enough_in_a_browser", "keyboard.mjs");
}

/// Views that the tests photograph for docs/web-views.md.
const VIEWS: [&str; 10] =
    ["login", "nodes", "new", "node", "dialog", "terminal", "timeline", "runs", "run", "search"];

#[test]
fn docs_show_views_light_and_dark_on_desktop_and_phone() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("web-views.md")).unwrap();
    for view in VIEWS {
        for variant in ["1280-light", "1280-dark", "390-light", "390-dark"] {
            let image = format!("images/web/views/{view}-{variant}.webp");
            assert!(page.contains(&format!("({image})")), "{image} is not on the page");
            assert!(fs::read(docs.join(&image)).is_ok_and(|bytes| bytes.starts_with(b"RIFF")), "{image}");
        }
    }
}
