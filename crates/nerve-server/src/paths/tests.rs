//! Folders and files of servers, and their limits.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn paths(vars: &[(&str, &str)]) -> ServerPaths {
    let vars: HashMap<String, OsString> =
        vars.iter().map(|(key, value)| (key.to_string(), OsString::from(value))).collect();
    ServerPaths::resolve(|name| vars.get(name).cloned(), 1234, Path::new("/here"))
}

#[test]
fn nerve_home_moves_everything() {
    let paths = paths(&[("NERVE_HOME", "/n"), ("HOME", "/home/u"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
    assert_eq!(paths.socket("default").unwrap(), Path::new("/n/run/default.sock"));
    assert_eq!(paths.log("default").unwrap(), Path::new("/n/logs/default.log"));
    assert_eq!(paths.data.history, Path::new("/n/history"));
    assert_eq!(paths.data.profiles, Path::new("/n/profiles"));
    assert_eq!(paths.runs(), Path::new("/n/runs"));
    assert_eq!(paths.data.sessions_file, Path::new("/n/sessions.json"));
}

#[test]
fn xdg_directories_apply_without_nerve_home() {
    let paths = paths(&[("HOME", "/home/u"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "relative")]);
    assert_eq!(paths.runtime, Path::new("/tmp/nerve-1234"));
    assert_eq!(paths.state, Path::new("/s/nerve"));
    assert_eq!(paths.config, Path::new("/home/u/.config/nerve"));
    assert_eq!(paths.data.history, Path::new("/s/nerve/history"));
    assert_eq!(paths.old_history, Path::new("/here/.nerve/history"));
    assert_eq!(paths.runs(), Path::new("/s/nerve/runs"));
    assert_eq!(paths.data.sessions_file, Path::new("/s/nerve/sessions.json"));
}

#[test]
fn sessions_of_older_versions_stay_where_they_are() {
    let home = tempfile::tempdir().unwrap();
    let sessions = || paths(&[("HOME", home.path().to_str().unwrap())]).data.sessions_file;
    let (old, new) =
        (home.path().join(".nerve/sessions.json"), home.path().join(".local/state/nerve/sessions.json"));
    assert_eq!(sessions(), new);
    for (file, expected) in [(&old, &old), (&new, &new)] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
        assert_eq!(sessions(), *expected);
    }
}

#[test]
fn ah_home_moves_only_recordings() {
    let own = paths(&[("AH_HOME", "/a"), ("HOME", "/home/u")]);
    assert_eq!(own.data.recordings, Path::new("/a/recordings"));
    assert_eq!(own.data.snapshots, Path::new("/home/u/.local/state/nerve/snapshots"));
    let relative = paths(&[("AH_HOME", "a"), ("HOME", "/home/u")]);
    assert_eq!(relative.data.recordings, Path::new("/home/u/.local/state/nerve/recordings"));
    let both = paths(&[("AH_HOME", "/a"), ("NERVE_HOME", "/n")]);
    assert_eq!(both.data.recordings, Path::new("/n/recordings"));
}

#[test]
fn directories_open_to_others_fail_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let paths = ServerPaths::under(&home);
    paths.check_directories().unwrap();
    assert!(!home.exists());
    private_directory(&home).unwrap();
    paths.check_directories().unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let started = paths.panes().unwrap_err().to_string();
    assert_eq!(paths.check_directories().unwrap_err().to_string(), started);
}

#[test]
fn home_is_needed_without_nerve_home() {
    let lacks = |vars: &[(&str, &str)]| {
        ServerPaths::lacks_home(|name| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    };
    assert!(lacks(&[]) && lacks(&[("HOME", "")]) && lacks(&[("NERVE_HOME", "")]));
    assert!(!lacks(&[("HOME", "/h")]) && !lacks(&[("NERVE_HOME", "n")]));
}

#[test]
fn foreign_runtime_directory_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let owner = fs::metadata(dir.path()).unwrap().uid();
    let get = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| OsString::from(path));
    let own = ServerPaths::resolve(get, owner, Path::new("/"));
    assert_eq!(own.runtime, dir.path().join("nerve"));
    let other = ServerPaths::resolve(get, owner + 1, Path::new("/"));
    assert_eq!(other.runtime, PathBuf::from(format!("/tmp/nerve-{}", owner + 1)));
}

#[test]
fn invalid_names_are_rejected() {
    for name in ["", "../x", "a/b", "A", "-a", "a-", "a.b", &"a".repeat(33), "ä"] {
        assert!(matches!(paths(&[]).socket(name), Err(ServerError::Name(_))), "{name}");
    }
    assert!(paths(&[]).socket(&"a".repeat(32)).is_ok());
}

#[test]
fn socket_path_may_have_107_bytes() {
    let room = MAX_SOCKET_PATH - "/run/a.sock".len();
    let home = format!("/{}", "h".repeat(room - 1));
    assert!(paths(&[("NERVE_HOME", &home)]).socket("a").is_ok());
    assert!(matches!(
        paths(&[("NERVE_HOME", &home)]).socket("ab"),
        Err(ServerError::PathTooLong { max: 107, .. })
    ));
}

#[test]
fn directory_open_to_others_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("a/b");
    private_directory(&made).unwrap();
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
    fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(private_directory(&made), Err(ServerError::UnsafeDirectory { .. })));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(private_directory(&link), Err(ServerError::UnsafeDirectory { .. })));
}
