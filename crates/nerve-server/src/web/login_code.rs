//! One-time codes with which a browser logs in.
//!
//! Each code has a private file, named by the SHA-256 of the code: `nerve web` creates it, the server renames it when
//! the code is used. Renaming succeeds once, so a code is used once, also by concurrent logins.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nerve_types::activity::TsMs;
use serde::{Deserialize, Serialize};

use super::now;
use super::record_store::{RecordStore, digest};
use super::role::Role;
use crate::error::ServerError;

/// Time for which a code is valid.
pub const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// Time for which used and expired codes are remembered, so that a login fails with the reason.
const RETENTION: Duration = Duration::from_secs(10 * 60);
/// Random bytes of a code.
const CODE_BYTES: usize = 16;

/// The login codes of one server.
#[derive(Debug)]
pub(crate) struct LoginCodes {
    records: RecordStore<CodeRecord>,
    used: RecordStore<CodeRecord>,
}

/// A code with which a browser can log in once.
#[derive(Debug, Clone)]
pub struct LoginCode {
    /// The code: 32 hexadecimal digits.
    pub code: String,
    /// Role of the session that it begins.
    pub role: Role,
    /// End of its validity.
    pub expires_at: TsMs,
}

#[derive(Debug, Serialize, Deserialize)]
struct CodeRecord {
    role: Role,
    expires_at: TsMs,
}

/// Reason why a code is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodeError {
    /// No such code was created, or so long ago that it is forgotten.
    #[error("the login code is wrong")]
    Wrong,
    /// The code was used before.
    #[error("the login code was already used")]
    Used,
    /// The code is too old.
    #[error("the login code has expired")]
    Expired,
}

impl LoginCodes {
    pub(crate) fn new(folder: PathBuf) -> LoginCodes {
        LoginCodes {
            records: RecordStore::new(folder.clone(), "json"),
            used: RecordStore::new(folder, "used"),
        }
    }

    /// Creates a code.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes or the file cannot be written.
    pub(crate) fn create(&self, role: Role) -> Result<LoginCode, ServerError> {
        self.forget_old();
        let expires_at = TsMs::from(SystemTime::now() + CODE_LIFETIME);
        let record = CodeRecord { role, expires_at };
        let code = self.records.create::<CODE_BYTES>("create a login code in", &record)?;
        Ok(LoginCode { code, role, expires_at })
    }

    /// Uses a code and returns the role of the session that it begins.
    pub(crate) fn redeem(&self, code: &str) -> Result<Role, CodeError> {
        let digest = digest(code);
        let (unused, used) = (self.records.path(&digest), self.used.path(&digest));
        let missing = || if used.exists() { CodeError::Used } else { CodeError::Wrong };
        let record = self.records.read(&digest).ok().flatten().ok_or_else(missing)?;
        if record.expires_at <= now() {
            return Err(CodeError::Expired);
        }
        fs::rename(&unused, &used).map_err(|_| missing())?;
        self.forget_old();
        Ok(record.role)
    }

    /// Removes the files of codes that were created long ago.
    fn forget_old(&self) {
        let oldest = SystemTime::now() - CODE_LIFETIME - RETENTION;
        for codes in [&self.records, &self.used] {
            for digest in codes.digests() {
                if codes.last_write(&digest).is_ok_and(|created| created < oldest) {
                    let _ = codes.remove(&digest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn codes() -> (tempfile::TempDir, LoginCodes) {
        let folder = tempfile::tempdir().unwrap();
        let codes = LoginCodes::new(folder.path().join("codes"));
        (folder, codes)
    }

    #[test]
    fn code_works_once_and_its_file_hides_it() {
        let (_folder, codes) = codes();
        let created = codes.create(Role::Answer).unwrap();
        assert_eq!(created.code.len(), 32);
        let file = fs::read_dir(codes.records.folder()).unwrap().next().unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let name = file.file_name().into_string().unwrap();
        assert!(
            !name.contains(&created.code)
                && !fs::read_to_string(file.path()).unwrap().contains(&created.code)
        );
        assert_eq!(codes.redeem("00000000000000000000000000000000"), Err(CodeError::Wrong));
        assert_eq!(codes.redeem(&created.code), Ok(Role::Answer));
        assert_eq!(codes.redeem(&created.code), Err(CodeError::Used));
    }

    #[test]
    fn concurrent_logins_with_one_code_yield_one_session() {
        let (_folder, codes) = codes();
        let code = codes.create(Role::Full).unwrap().code;
        let results: Vec<_> = std::thread::scope(|scope| {
            let logins: Vec<_> = (0..16).map(|_| scope.spawn(|| codes.redeem(&code))).collect();
            logins.into_iter().map(|login| login.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        assert!(results.iter().all(|result| matches!(result, Ok(Role::Full) | Err(CodeError::Used))));
    }

    #[test]
    fn expired_code_is_refused_and_later_forgotten() {
        let (_folder, codes) = codes();
        let code = codes.create(Role::Full).unwrap().code;
        let record = CodeRecord { role: Role::Full, expires_at: TsMs(now().0 - 1) };
        let path = codes.records.path(&digest(&code));
        fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
        assert_eq!(codes.redeem(&code), Err(CodeError::Expired));
        let long_ago = SystemTime::now() - 2 * RETENTION;
        fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        codes.create(Role::View).unwrap();
        assert_eq!(codes.redeem(&code), Err(CodeError::Wrong));
    }
}
