//! Formats times, durations, sizes and names for display.

use std::path::Path;
use std::time::Duration;

use nerve_commands::clock::local_time;
use nerve_record::store::id_of;
use nerve_types::TsNs;

/// Characters of a UUIDv7 that hold its timestamp in milliseconds (RFC 9562 §5.7).
pub(super) const ID_PREFIX_LEN: usize = 13;

/// Formats a time as `2025-10-09 08:53:20`, in local time.
pub(super) fn time(at: TsNs) -> String {
    local_time(at.0 as f64 / 1e9)
}

/// Formats a duration: `850ms`, `12.3s`, `2m 05s`, `1h 02m`.
pub(in crate::cmd) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a number of bytes: `999 B`, `1.2 MiB`.
pub(in crate::cmd) fn size(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count as f64;
    let mut unit = "B";
    for next in UNITS {
        if scaled < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, next);
    }
    if unit == "B" { format!("{count} B") } else { format!("{scaled:.1} {unit}") }
}

/// Returns a recording's file name, or the abbreviated id if the name is a UUID.
pub(super) fn display_name(recording: &Path) -> String {
    let name = recording.file_name().unwrap_or_default().to_string_lossy();
    let is_uuid =
        |id: &&str| id.len() == 36 && id.bytes().enumerate().all(|(at, byte)| is_uuid_byte(at, byte));
    match id_of(recording).filter(is_uuid) {
        Some(id) => format!("{}…", &id[..ID_PREFIX_LEN]),
        None => name.into_owned(),
    }
}

/// Returns true if `byte` may stand at index `at` of a UUID (RFC 9562 §4).
fn is_uuid_byte(at: usize, byte: u8) -> bool {
    if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
}

/// Returns `SESSION/NODE`, or the part of it that is known.
pub(super) fn node_path(session: Option<&str>, node: Option<&str>) -> String {
    let parts: Vec<&str> = session.into_iter().chain(node).collect();
    parts.join("/")
}

/// Quotes a command for a shell.
pub(super) fn command(argv: &[String]) -> String {
    shell_words::join(argv)
}

/// Quotes a command for a shell; returns only LINE for `sh -c LINE`, the form that cast headers use and an import
/// produces.
pub(super) fn command_line(argv: &[String]) -> String {
    match argv {
        [shell, flag, line] if shell == "sh" && flag == "-c" => line.clone(),
        _ => command(argv),
    }
}

/// Returns `in FOLDER`, or `on server 'NAME'`.
pub(super) fn location(server: Option<&str>, folder: &Path) -> String {
    server.map_or_else(|| format!("in {}", folder.display()), |server| format!("on server '{server}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_short() {
        let spans =
            [(0, "0ms"), (850, "850ms"), (12_300, "12.3s"), (125_000, "2m 05s"), (3_725_000, "1h 02m")];
        for (millis, words) in spans {
            assert_eq!(duration(Duration::from_millis(millis)), words);
        }
        let sizes =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_258_291, "1.2 MiB"), (5 << 40, "5.0 TiB")];
        for (count, words) in sizes {
            assert_eq!(size(count), words);
        }
    }

    #[test]
    fn nodes_are_named_with_their_sessions() {
        assert_eq!(node_path(Some("default"), Some("me")), "default/me");
        assert_eq!((node_path(None, Some("me")), node_path(None, None)), ("me".into(), String::new()));
    }

    #[test]
    fn uuid_is_abbreviated_and_name_kept() {
        for (file, name) in [
            ("/r/0195e3a1-77aa-7bcd-8000-0123456789ab.ahr", "0195e3a1-77aa…"),
            ("0195e3a1-77aa-7bcd-8000-0123456789xy.ahr", "0195e3a1-77aa-7bcd-8000-0123456789xy.ahr"),
            ("a-name-that-is-as-long-as-an-id-would.ahr", "a-name-that-is-as-long-as-an-id-would.ahr"),
            ("/r/run.ahr", "run.ahr"),
            ("run.cast", "run.cast"),
        ] {
            assert_eq!(display_name(Path::new(file)), name);
        }
    }
}
