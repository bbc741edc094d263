//! The token that clients must send over TCP and HTTP: one line in a file that only its owner can read.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nerve_types::text::hex;
use ring::hmac;
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;

use super::secret;
use crate::error::ServerError;
use crate::paths::private_directory;

/// Flag for opening the file: a FIFO in its place must not block.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
/// Random bytes in a generated token.
const RANDOM_BYTES: usize = 32;
/// Minimum length of a token in bytes. Guessing over many connections is not slowed down, so shorter tokens are not safe.
pub const MIN: usize = 32;
/// Maximum length of a token in bytes.
pub const MAX: usize = 256;

/// A secret token. Only [`Token::reveal`] returns its text; `Debug` hides it.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Generates a token: 64 hexadecimal digits from the system's random source.
    ///
    /// # Errors
    /// Returns an error if the system provides no random bytes.
    fn generate(path: &Path) -> Result<Token, ServerError> {
        secret::random_hex::<RANDOM_BYTES>().map(Token).map_err(ServerError::io("make", path))
    }

    /// Returns the text that a client must send.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns a text that identifies the token and does not reveal it.
    pub(crate) fn fingerprint(&self) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        hex(hmac::sign(&key, b"nerve web session").as_ref())
    }

    /// Returns true if `candidate` equals the token. Compares in constant time; only the length can leak.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(candidate).into()
    }
}

/// A file with a token. It is read on every use, so that a changed token is valid at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Creates a handle to the file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> TokenFile {
        TokenFile { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the token. Creates the file with a new token if it does not exist.
    ///
    /// # Errors
    /// See [`TokenFile::read`]; also if the file cannot be created.
    pub fn obtain(&self) -> Result<Token, ServerError> {
        match self.read() {
            Err(ServerError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            read => return read,
        }
        let token = Token::generate(&self.path)?;
        let file = self.write_temporary(&token)?;
        match file.persist_noclobber(&self.path) {
            Ok(_) => Ok(token),
            // Another process has created it in the meantime.
            Err(failed) if failed.error.kind() == std::io::ErrorKind::AlreadyExists => self.read(),
            Err(failed) => {
                Err(ServerError::Io { action: "create", path: self.path.clone(), source: failed.error })
            }
        }
    }

    /// Reads the token.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, other users can access it, or it does not hold exactly
    /// one line of 32–256 printable characters without blanks.
    pub fn read(&self) -> Result<Token, ServerError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(NONBLOCK)
            .open(&self.path)
            .map_err(ServerError::io("open", &self.path))?;
        self.check(&file)?;
        self.read_from(file)
    }

    /// Reads the token in `file` without checking the file's permissions.
    fn read_from(&self, file: File) -> Result<Token, ServerError> {
        let mut bytes = Vec::new();
        file.take(MAX as u64 + 2).read_to_end(&mut bytes).map_err(ServerError::io("read", &self.path))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let token = text.trim_end_matches(['\r', '\n']);
        let is_valid =
            (MIN..=MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid {
            return Err(self.unsafe_file(format!(
                "it does not hold one line of {MIN} to {MAX} printable characters without blanks"
            )));
        }
        Ok(Token(token.to_string()))
    }

    /// Replaces the token atomically. Servers accept only the new one from now on. Follows a symbolic link
    /// and replaces its target.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or if it holds something other than a token, which would be lost.
    pub fn rotate(&self) -> Result<Token, ServerError> {
        let target = match self.path.canonicalize() {
            Ok(path) => TokenFile { path },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.clone(),
            Err(source) => return Err(ServerError::Io { action: "find", path: self.path.clone(), source }),
        };
        match OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&target.path) {
            // Permissions are not checked: wrong ones are a good reason for a new token.
            Ok(file) if file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0) => {}
            Ok(file) => drop(target.read_from(file)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ServerError::Io { action: "open", path: target.path, source }),
        }
        let token = Token::generate(&target.path)?;
        let file = target.write_temporary(&token)?;
        file.persist(&target.path)
            .map_err(|failed| failed.error)
            .map_err(ServerError::io("write", &target.path))?;
        Ok(token)
    }

    /// Writes the token to a temporary file with mode 0600 and syncs it. Readers see a complete token or none.
    fn write_temporary(&self, token: &Token) -> Result<NamedTempFile, ServerError> {
        let folder = self.create_folder()?;
        let write = || -> std::io::Result<NamedTempFile> {
            let mut file = NamedTempFile::new_in(&folder)?;
            writeln!(file, "{}", token.reveal())?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        write().map_err(ServerError::io("write", &self.path))
    }

    /// Returns the file's directory, which is created if it does not exist.
    fn create_folder(&self) -> Result<PathBuf, ServerError> {
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
            return Err(self.unsafe_file("it is not a file".to_string()));
        }
        if meta.uid() != uid {
            return Err(self.unsafe_file(format!("it belongs to uid {}, not to {uid}", meta.uid())));
        }
        if meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o7777;
            return Err(self.unsafe_file(format!("its mode {mode:04o} lets others read it")));
        }
        Ok(())
    }

    fn unsafe_file(&self, problem: String) -> ServerError {
        ServerError::UnsafeToken { path: self.path.clone(), problem }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_created_once_with_private_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("new/token"));
        let token = file.obtain().unwrap();
        assert_eq!(token.reveal().len(), 2 * RANDOM_BYTES);
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        assert!(token.matches(file.obtain().unwrap().reveal().as_bytes()));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn wrong_and_truncated_tokens_do_not_match() {
        let dir = tempfile::tempdir().unwrap();
        let token = TokenFile::new(dir.path().join("token")).obtain().unwrap();
        let text = token.reveal().as_bytes();
        let longer = [text, b"0"].concat();
        for given in [&b""[..], &text[..text.len() - 1], &text[1..], &longer, b"x"] {
            assert!(!token.matches(given));
        }
        assert!(token.matches(text));
    }

    #[test]
    fn rotate_replaces_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let old = file.obtain().unwrap();
        let new = file.rotate().unwrap();
        assert!(!old.matches(new.reveal().as_bytes()));
        assert!(file.read().unwrap().matches(new.reveal().as_bytes()));
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn rotate_follows_link_and_spares_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, link) = (dir.path().join("kept"), dir.path().join("link"));
        let old = TokenFile::new(&kept).obtain().unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        TokenFile::new(&link).rotate().unwrap();
        assert!(
            !TokenFile::new(&kept).read().unwrap().matches(old.reveal().as_bytes()),
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
    fn concurrent_creation_yields_one_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("token"));
        let tokens: Vec<Token> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..16).map(|_| scope.spawn(|| file.obtain().unwrap())).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| token.matches(tokens[0].reveal().as_bytes())));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn readable_or_malformed_file_is_rejected() {
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
