//! What a row says in as much room as there is: what matters least gives way first.

use unicode_width::UnicodeWidthStr;

/// Something the row says: its forms, the longest first, each with how little it matters. None of them is shown where there is
/// no room for what matters that little.
pub(crate) struct Part {
    forms: Vec<(u8, String)>,
}

/// Nothing matters less.
pub(crate) const LEAST: u8 = 9;

impl Part {
    pub(crate) fn new(rank: u8, text: impl Into<String>) -> Part {
        Part { forms: vec![(rank, text.into())] }
    }

    pub(crate) fn or(mut self, rank: u8, text: impl Into<String>) -> Part {
        self.forms.push((rank, text.into()));
        self
    }

    /// Its longest form that matters that much.
    fn at(&self, rank: u8) -> Option<&str> {
        self.forms.iter().find(|(least, _)| *least <= rank).map(|(_, text)| text.as_str())
    }
}

/// Between what is left and what is right.
const GAP: usize = 2;

/// Both sides, with as much as there is room for; what matters most is cut with a mark at its end if even that is too long.
pub(crate) fn fit(left: &[Part], right: &[Part], room: usize) -> (String, String) {
    let joined = |parts: &[Part], rank, sign: &str| {
        let texts = parts.iter().filter_map(|part| part.at(rank)).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join(sign)
    };
    for rank in (0..=LEAST).rev() {
        let (left, mut right) = (joined(left, rank, "  "), joined(right, rank, " · "));
        if !right.is_empty() {
            right.push(' ');
        }
        let gap = if left.is_empty() || right.is_empty() { 0 } else { GAP };
        if left.width() + gap + right.width() <= room {
            return (left, right);
        }
    }
    let all = [joined(left, 0, "  "), joined(right, 0, " · ")];
    (cut(all.join(" ").trim(), room), String::new())
}

/// A text with a mark at its end where it is cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_string();
    }
    let mut kept = String::new();
    for char in text.chars() {
        kept.push(char);
        if kept.width() + 1 > room {
            kept.pop();
            break;
        }
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_least_gives_way_first() {
        let left = [Part::new(1, "live"), Part::new(5, "claude")];
        let right = [Part::new(8, "busy (title)").or(2, "busy"), Part::new(3, "end")];
        let shown = |room| {
            let (left, right) = fit(&left, &right, room);
            format!("{left}|{right}")
        };
        assert_eq!(shown(40), "live  claude|busy (title) · end ");
        assert_eq!(shown(33), "live  claude|busy (title) · end ");
        assert_eq!(shown(32), "live  claude|busy · end ");
        assert_eq!(shown(25), "live  claude|busy · end ");
        assert_eq!(shown(24), "live|busy · end ");
        assert_eq!(shown(15), "live|busy ");
        assert_eq!(shown(6), "live|");
        assert_eq!(shown(3), "|", "nothing here matters most");
    }

    #[test]
    fn what_matters_most_is_cut_rather_than_left_out() {
        let left = [Part::new(1, "live"), Part::new(0, "日本語 and more")];
        for room in 0..30 {
            let (text, right) = fit(&left, &[Part::new(3, "end")], room);
            assert!(text.width() + right.width() <= room, "{room}: {text}|{right}");
            assert!(room < 3 || text.contains('日'), "{room}: {text}");
        }
        assert_eq!(fit(&left, &[], 6).0, "日本…");
    }
}
