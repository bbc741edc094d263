//! Fits the parts of the status line into its width by dropping and truncating parts of low priority.

use unicode_width::UnicodeWidthStr;

/// A part with its forms, longest first. Each form has a rank; forms with a rank above the chosen limit are not
/// shown.
pub(crate) struct Part {
    forms: Vec<(u8, Form)>,
}

/// A text with prefix and suffix, and the minimum width of the text.
struct Form {
    before: String,
    text: String,
    after: String,
    least: usize,
}

impl Form {
    /// Renders the form, using `spare` columns beyond its minimum width.
    fn render(&self, spare: &mut usize) -> String {
        let extra = (*spare).min(self.text.width() - self.least);
        *spare -= extra;
        format!("{}{}{}", self.before, cut(&self.text, self.least + extra), self.after)
    }

    /// Returns the minimum width.
    fn width(&self) -> usize {
        self.before.width() + self.least + self.after.width()
    }
}

/// Lowest priority.
pub(crate) const MAX_RANK: u8 = 9;

impl Part {
    pub(crate) fn new(rank: u8, text: impl Into<String>) -> Part {
        Part { forms: Vec::new() }.or(rank, text)
    }

    pub(crate) fn or(self, rank: u8, text: impl Into<String>) -> Part {
        self.or_cut(rank, usize::MAX, "", &text.into(), "")
    }

    /// Adds a form whose text can be truncated down to `least` columns.
    pub(crate) fn or_cut(mut self, rank: u8, least: usize, before: &str, text: &str, after: &str) -> Part {
        let least = least.min(text.width());
        let (before, text, after) = (before.to_string(), text.to_string(), after.to_string());
        self.forms.push((rank, Form { before, text, after, least }));
        self
    }

    /// Returns the longest form allowed at this rank.
    fn form_at(&self, rank: u8) -> Option<&Form> {
        let (_, form) = self.forms.iter().find(|(form_rank, _)| *form_rank <= rank)?;
        Some(form).filter(|form| form.width() > 0)
    }
}

/// Blanks between the two sides.
const GAP: usize = 2;

/// Renders both sides within the width. If even the parts of the highest priority do not fit, they are truncated.
pub(crate) fn fit(left: &[Part], right: &[Part], room: usize) -> (String, String) {
    let separators = ["  ", " · "];
    let forms =
        |rank| [left, right].map(|parts| parts.iter().filter_map(|part| part.form_at(rank)).collect());
    for rank in (0..=MAX_RANK).rev() {
        let sides: [Vec<&Form>; 2] = forms(rank);
        let [left, right] = [0, 1].map(|side| {
            let separators = separators[side].width() * sides[side].len().saturating_sub(1);
            sides[side].iter().map(|form| form.width()).sum::<usize>() + separators
        });
        // The right side is followed by a blank.
        let gap = usize::from(right > 0) + if left > 0 && right > 0 { GAP } else { 0 };
        if let Some(mut spare) = room.checked_sub(left + gap + right) {
            let [left, mut right] = [0, 1].map(|side| {
                let texts: Vec<String> = sides[side].iter().map(|form| form.render(&mut spare)).collect();
                texts.join(separators[side])
            });
            if !right.is_empty() {
                right.push(' ');
            }
            return (left, right);
        }
    }
    let sides: [Vec<&Form>; 2] = forms(0);
    let all = [0, 1].map(|side| {
        let mut spare = usize::MAX;
        let texts: Vec<String> = sides[side].iter().map(|form| form.render(&mut spare)).collect();
        texts.join(separators[side])
    });
    (cut(all.join(" ").trim(), room), String::new())
}

/// Truncates a text, with an ellipsis.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_string();
    }
    let mut truncated = String::new();
    for char in text.chars() {
        truncated.push(char);
        if truncated.width() + 1 > room {
            truncated.pop();
            break;
        }
    }
    if room > 0 {
        truncated.push('…');
    }
    truncated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_priority_is_dropped_first() {
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
    fn truncated_text_uses_remaining_width() {
        let left =
            [Part::new(1, "live"), Part::new(4, "! no disk left").or_cut(3, 4, "! ", "no disk left", "")];
        let right = [Part::new(9, "busy (the title)").or_cut(7, 5, "busy (", "the title", ")").or(2, "busy")];
        let shown = |room| {
            let (left, right) = fit(&left, &right, room);
            assert!(left.width() + right.width() <= room);
            format!("{left}|{right}")
        };
        assert_eq!(shown(39), "live  ! no disk left|busy (the title) ");
        assert_eq!(shown(38), "live  ! no disk left|busy (the tit…) ");
        assert_eq!(shown(35), "live  ! no disk left|busy (the …) ");
        assert_eq!(shown(34), "live  ! no disk left|busy ");
        assert_eq!(shown(26), "live  ! no disk le…|busy ");
        assert_eq!(shown(19), "live  ! no …|busy ");
        assert_eq!(shown(18), "live|busy ");
    }

    #[test]
    fn highest_priority_is_truncated_not_dropped() {
        let left = [Part::new(1, "live"), Part::new(0, "日本語 and more")];
        for room in 0..30 {
            let (text, right) = fit(&left, &[Part::new(3, "end")], room);
            assert!(text.width() + right.width() <= room, "{room}: {text}|{right}");
            assert!(room < 3 || text.contains('日'), "{room}: {text}");
        }
        assert_eq!(fit(&left, &[], 6).0, "日本…");
    }
}
