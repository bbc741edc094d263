//! Parses names of keys and escapes, and encodes them. A key's own name parses to the same key, and no text ends its paste.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nerve_fuzz::text;
use nerve_vt::keys::{Input, Key, PASTE_END, paste, split_paste, unescape};
use nerve_vt::screen::Modes;

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    let (flags, name) =
        data.split_first().map_or((0, ""), |(flags, _)| (*flags, text.get(1..).unwrap_or("")));
    let modes = Modes {
        application_cursor: flags & 32 != 0,
        application_keypad: flags & 64 != 0,
        bracketed_paste: true,
        kitty_keyboard: flags & 31,
        ..Modes::default()
    };
    if let Ok(key) = name.parse::<Key>() {
        assert_eq!(key.to_string().parse::<Key>(), Ok(key));
        let _ = Input::Key(key).bytes(modes);
    }
    let _ = unescape(&text);
    let pasted = paste(&text, modes);
    let (before, _, after) = split_paste(&pasted).expect("a paste has a begin and an end");
    assert!(before.is_empty() && after.is_empty() && pasted.ends_with(PASTE_END));
    if let Some((before, inside, after)) = split_paste(data) {
        assert!(before.len() + inside.len() + after.len() < data.len());
    }
});
