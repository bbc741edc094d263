//! Ownership, repair and loss of names.

use nerve_types::os::start_time;

use super::*;

fn paths(dir: &Path) -> ServerPaths {
    let home = dir.join("n");
    ServerPaths::resolve(|name| (name == "NERVE_HOME").then(|| home.clone().into()), 0, dir)
}

#[test]
fn name_is_owned_until_lock_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Free);
    let (mut claim, _listener) = NameLock::take(&paths, "a").unwrap();
    assert_eq!(fs::metadata(&claim.socket).unwrap().mode() & 0o777, 0o600);
    let NameStatus::Held(Some(who)) = holder(&paths, "a").unwrap() else { panic!("not held") };
    assert_eq!(who.pid, std::process::id());
    assert!(who.is_same_process());
    let again = NameLock::take(&paths, "a").unwrap_err();
    assert!(matches!(again, ServerError::AlreadyRunning { pid: Some(pid), .. } if pid == who.pid));
    assert_eq!(addresses(&paths, "a").unwrap(), Addresses::default());
    let listens = Addresses { tcp: "[::1]:4000".parse().ok(), http: None, tls: true, machines: true };
    claim.announce(&listens).unwrap();
    assert_eq!(addresses(&paths, "a").unwrap(), listens);
    assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Held(Some(who)));
    let socket = claim.socket.clone();
    drop(claim);
    assert_eq!(addresses(&paths, "a").unwrap(), Addresses::default());
    assert!(!socket.exists());
    assert_eq!(holder(&paths, "a").unwrap(), NameStatus::Free);
    drop(NameLock::take(&paths, "a").unwrap());
}

#[test]
fn local_url_replaces_unspecified_address() {
    let url = |http: &str, tls| {
        Addresses { http: http.parse().ok(), tcp: None, tls, machines: false }.local_http_url()
    };
    assert_eq!(url("0.0.0.0:70", false).unwrap(), "http://127.0.0.1:70");
    assert_eq!(url("[::]:70", true).unwrap(), "https://[::1]:70");
    assert_eq!(url("10.0.0.1:70", true).unwrap(), "https://10.0.0.1:70");
    assert_eq!(url("", false), None);
}

#[test]
fn stale_socket_is_replaced_but_a_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    private_directory(&paths.runtime).unwrap();
    drop(UnixListener::bind(paths.socket("a").unwrap()).unwrap());
    assert!(paths.socket("a").unwrap().exists());
    drop(NameLock::take(&paths, "a").unwrap());
    let path = paths.socket("b").unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(NameLock::take(&paths, "b"), Err(ServerError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn deleted_files_are_found_and_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    let (mut claim, _listener) = NameLock::take(&paths, "a").unwrap();
    let _hosts = paths.claim_hosts("a").unwrap();
    let listens = Addresses { tcp: "[::1]:4000".parse().ok(), http: None, tls: false, machines: false };
    claim.announce(&listens).unwrap();
    let held = holder(&paths, "a").unwrap();
    assert!(claim.repair().unwrap().is_none(), "nothing is missing");
    assert_eq!(missing_files(&paths, "a").unwrap(), Vec::<PathBuf>::new());

    fs::remove_file(&claim.socket).unwrap();
    assert_eq!(missing_files(&paths, "a").unwrap(), [claim.socket.clone()]);
    assert!(matches!(NameLock::take(&paths, "a"), Err(ServerError::Unreachable { pid: Some(_), .. })));
    let _stale = UnixListener::bind(&claim.socket).unwrap();
    assert_eq!(missing_files(&paths, "a").unwrap(), [claim.socket.clone()], "it is of another process");
    assert!(matches!(claim.repair(), Err(ServerError::ForeignListener { .. })));

    fs::remove_dir_all(&paths.runtime).unwrap();
    assert_eq!((holder(&paths, "a").unwrap(), paths.servers()), (held, vec!["a".to_string()]));
    assert_eq!(missing_files(&paths, "a").unwrap().len(), 2);
    assert!(matches!(paths.claim_hosts("a"), Err(ServerError::Unreachable { pid: Some(_), .. })));
    let listener = claim.repair().unwrap().expect("a new socket");
    UnixStream::connect(&claim.socket).unwrap();
    listener.accept().unwrap();
    assert_eq!(missing_files(&paths, "a").unwrap(), Vec::<PathBuf>::new());
    assert_eq!((holder(&paths, "a").unwrap(), addresses(&paths, "a").unwrap()), (held, listens));
}

#[test]
fn listener_without_lock_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let paths = paths(dir.path());
    private_directory(&paths.runtime).unwrap();
    let _other = UnixListener::bind(paths.socket("a").unwrap()).unwrap();
    assert!(matches!(NameLock::take(&paths, "a"), Err(ServerError::ForeignListener { .. })));
}

#[test]
fn reused_pid_is_never_signalled() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let stranger = Holder { pid: child.id(), start: 1 };
    assert!(!stranger.is_same_process());
    assert!(stranger.signal(rustix::process::Signal::KILL).is_err());
    assert!(child.try_wait().unwrap().is_none());
    let right = Holder { pid: child.id(), start: start_time(child.id()).unwrap() };
    right.signal(rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(right.signal(rustix::process::Signal::TERM).is_err());
}
