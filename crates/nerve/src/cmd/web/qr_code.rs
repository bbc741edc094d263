//! QR codes for terminals.

use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;

/// Black on white in every color scheme (ECMA-48 SGR): readers expect it.
const BLACK_ON_WHITE: &str = "\x1b[30;107m";
const RESET: &str = "\x1b[0m";

/// Returns a QR code with its margin, two rows of modules in a line; `None` if the text is too long for one.
pub(super) fn render(text: &str) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let image = code.render::<Dense1x2>().build();
    Some(image.lines().map(|line| format!("{BLACK_ON_WHITE}{line}{RESET}\n")).collect())
}
