//! The token that clients over TCP and HTTP must know: one line in a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;

use crate::error::ServerError;
use crate::paths::private_directory;

/// A pipe in the file's place holds nobody up.
const NO_WAITING: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
/// Random bytes in a token that is made here.
const RANDOM: usize = 32;
/// The shortest token a file may hold, in bytes: shorter ones can be guessed, for nothing slows down who guesses over many connections.
pub const MIN: usize = 32;
/// The longest one.
pub const MAX: usize = 256;

/// A token. Its text is shown by [`Token::reveal`] alone: not by `{:?}`, and there is no `{}`.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token nobody has seen: 64 hexadecimal digits of the system's randomness.
    ///
    /// # Errors
    /// The system has none to give.
    fn random(path: &Path) -> Result<Token, ServerError> {
        let mut bytes = [0; RANDOM];
        let no_random = |_| std::io::Error::other("the system gives no random bytes");
        SystemRandom::new().fill(&mut bytes).map_err(no_random).map_err(ServerError::io("make", path))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The text that a client must give.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is this token. Takes as long whatever the bytes are; only their number can be told from it.
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

/// Where a token is kept. It is read each time it is needed, so that a new one counts at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// A token in this file, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> TokenFile {
        TokenFile { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token; made now if there is none.
    ///
    /// # Errors
    /// See [`TokenFile::read`]; it cannot be made.
    pub fn obtain(&self) -> Result<Token, ServerError> {
        match self.read() {
            Err(ServerError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            read => return read,
        }
        let token = Token::random(&self.path)?;
        let file = self.written(&token)?;
        match file.persist_noclobber(&self.path) {
            Ok(_) => Ok(token),
            // Somebody else has just made it.
            Err(failed) if failed.error.kind() == std::io::ErrorKind::AlreadyExists => self.read(),
            Err(failed) => {
                Err(ServerError::Io { what: "create", path: self.path.clone(), source: failed.error })
            }
        }
    }

    /// The token in the file.
    ///
    /// # Errors
    /// There is no such file; it is not this user's alone; it holds no token: one line of 32–256 printable characters without blanks.
    pub fn read(&self) -> Result<Token, ServerError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(NO_WAITING)
            .open(&self.path)
            .map_err(ServerError::io("open", &self.path))?;
        self.check(&file)?;
        self.content(file)
    }

    /// The token that `file` holds, whoever may read it.
    fn content(&self, file: File) -> Result<Token, ServerError> {
        let mut bytes = Vec::new();
        file.take(MAX as u64 + 2).read_to_end(&mut bytes).map_err(ServerError::io("read", &self.path))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let token = text.trim_end_matches(['\r', '\n']);
        let fits = (MIN..=MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            return Err(self.unsafe_because(format!(
                "it does not hold one line of {MIN} to {MAX} printable characters without blanks"
            )));
        }
        Ok(Token(token.to_string()))
    }

    /// Puts a new token in the place of the old one, whole or not at all. Servers take it from now on, and only it. A link is followed: the
    /// file that servers read is the one that changes.
    ///
    /// # Errors
    /// It cannot be written; or what is there is no token, and somebody else's file would be lost.
    pub fn rotate(&self) -> Result<Token, ServerError> {
        let place = match self.path.canonicalize() {
            Ok(path) => TokenFile { path },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.clone(),
            Err(source) => return Err(ServerError::Io { what: "find", path: self.path.clone(), source }),
        };
        match OpenOptions::new().read(true).custom_flags(NO_WAITING).open(&place.path) {
            // One that others could read is a good reason for a new one.
            Ok(file) if file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0) => {}
            Ok(file) => drop(place.content(file)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ServerError::Io { what: "open", path: place.path, source }),
        }
        let token = Token::random(&place.path)?;
        let file = place.written(&token)?;
        file.persist(&place.path)
            .map_err(|failed| failed.error)
            .map_err(ServerError::io("write", &place.path))?;
        Ok(token)
    }

    /// A file that holds a token, on the disk, with mode 0600, and not yet in its place: whoever reads there finds a whole token or none.
    fn written(&self, token: &Token) -> Result<NamedTempFile, ServerError> {
        let folder = self.folder()?;
        let write = || -> std::io::Result<NamedTempFile> {
            let mut file = NamedTempFile::new_in(&folder)?;
            writeln!(file, "{}", token.reveal())?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        write().map_err(ServerError::io("write", &self.path))
    }

    /// The folder it is in, made if it is not there.
    fn folder(&self) -> Result<PathBuf, ServerError> {
        let folder = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            private_directory(&folder)?;
        }
        Ok(folder)
    }

    fn check(&self, file: &File) -> Result<(), ServerError> {
        let meta: fs::Metadata = file.metadata().map_err(ServerError::io("look at", &self.path))?;
        let uid = rustix::process::getuid().as_raw();
        if !meta.is_file() {
            return Err(self.unsafe_because("it is not a file".to_string()));
        }
        if meta.uid() != uid {
            return Err(self.unsafe_because(format!("it belongs to uid {}, not to {uid}", meta.uid())));
        }
        if meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o7777;
            return Err(self.unsafe_because(format!("its mode {mode:04o} lets others read it")));
        }
        Ok(())
    }

    fn unsafe_because(&self, problem: String) -> ServerError {
        ServerError::UnsafeToken { path: self.path.clone(), problem }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("new/token"));
        let token = file.obtain().unwrap();
        assert_eq!(token.reveal().len(), 2 * RANDOM);
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        assert!(token.is(file.obtain().unwrap().reveal().as_bytes()));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_wrong_a_missing_and_a_truncated_token_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let token = TokenFile::new(dir.path().join("token")).obtain().unwrap();
        let text = token.reveal().as_bytes();
        let longer = [text, b"0"].concat();
        for given in [&b""[..], &text[..text.len() - 1], &text[1..], &longer, b"x"] {
            assert!(!token.is(given));
        }
        assert!(token.is(text));
    }

    #[test]
    fn a_new_token_takes_the_place_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let old = file.obtain().unwrap();
        let new = file.rotate().unwrap();
        assert!(!old.is(new.reveal().as_bytes()));
        assert!(file.read().unwrap().is(new.reveal().as_bytes()));
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_new_token_is_put_behind_a_link_and_over_nothing_but_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, link) = (dir.path().join("kept"), dir.path().join("link"));
        let old = TokenFile::new(&kept).obtain().unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        TokenFile::new(&link).rotate().unwrap();
        assert!(
            !TokenFile::new(&kept).read().unwrap().is(old.reveal().as_bytes()),
            "the old one still counts"
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

        let precious = dir.path().join("bashrc");
        fs::write(&precious, "alias ll='ls -l'\n").unwrap();
        let refused = TokenFile::new(&precious).rotate().unwrap_err();
        assert!(matches!(refused, ServerError::UnsafeToken { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "alias ll='ls -l'\n");
        assert!(TokenFile::new(dir.path()).rotate().is_err());

        fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).unwrap();
        TokenFile::new(&kept).rotate().unwrap();
        assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o600, "others have seen the old one");
    }

    #[test]
    fn many_who_make_one_at_the_same_time_all_get_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let tokens: Vec<Token> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..16).map(|_| scope.spawn(|| file.obtain().unwrap())).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| token.is(tokens[0].reveal().as_bytes())));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_can_read_or_that_holds_no_token_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let file = TokenFile::new(&path);
        let put = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let whole = format!("{}\n", "x".repeat(MIN));
        put(&whole, 0o600);
        assert!(file.read().is_ok());
        put(&whole, 0o640);
        assert!(file.obtain().unwrap_err().to_string().contains("0640"));
        for text in
            ["", "short\n", "with a blank inside it\n", "two lines of it\nand more of it\n", &"x".repeat(300)]
        {
            put(text, 0o600);
            let error = file.read().unwrap_err();
            assert!(matches!(error, ServerError::UnsafeToken { .. }), "{text:?}: {error}");
        }
        let folder = TokenFile::new(dir.path());
        assert!(folder.read().is_err());
    }
}
