//! Reads an agent profile.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_agent::profile::Profiles;
use nerve_fuzz::text;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let (profiles, errors) = Profiles::with_user([("own.toml", text.as_str())].into_iter());
    for error in errors {
        let _ = error.to_string();
    }
    let command = ["env", "claude"].map(String::from);
    for name in profiles.names() {
        let profile = profiles.get(name).expect("a name without a profile");
        let _ = (profile.program_at(&command), profile.context_kind());
    }
});
