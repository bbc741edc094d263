//! Animated images.

use std::time::Duration;

use nerve_record::ahr::Body;
use nerve_record::export::{SvgOptions, svg};
use nerve_types::Size;

use crate::{data, reader, recording, resize};

fn image(records: &[(u64, Body<'_>)], idle_limit: Option<u64>) -> String {
    let options = SvgOptions {
        size: Size::new(20, 4),
        title: Some("a <title>".into()),
        idle_limit: idle_limit.map(Duration::from_millis),
    };
    let mut out = Vec::new();
    svg(&mut reader(&recording(records)), &options, &mut out, |lost| panic!("{lost}")).unwrap();
    String::from_utf8(out).unwrap()
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn frames_share_rows() {
    let image = image(&[(0, data(0, "one\r\n")), (500, data(5, "two\r\n")), (1000, data(10, "three"))], None);
    assert_eq!(count(&image, "<g transform="), 3, "{image}");
    assert_eq!(count(&image, ">one</text>"), 1, "a row of three frames is written once: {image}");
    assert_eq!(count(&image, "<use href=\"#r0\" y=\"0.0\"/>"), 3, "{image}");
    assert!(image.contains("<title>a &lt;title&gt;</title>"), "{image}");
    assert!(image.contains("animation:frames 4.000s"), "one second and the time of the last frame: {image}");
    assert!(image.contains("12.5000%{transform:translateX(-192.0px)}"), "{image}");
}

#[test]
fn fast_changes_share_a_frame() {
    let records: Vec<_> = (0..100).map(|n| (n, data(n, "x"))).collect();
    let image = image(&records, None);
    assert_eq!(count(&image, "<g transform="), 2, "{image}");
}

#[test]
fn pauses_are_limited() {
    let records = [(0, data(0, "a")), (60_000, data(1, "b"))];
    assert!(image(&records, None).contains("animation:frames 63.000s"));
    assert!(image(&records, Some(1_000)).contains("animation:frames 4.000s"));
}

#[test]
fn styles_and_markup_are_kept() {
    let text = "\x1b[1;31m<b>\x1b[0m \x1b[7minv\x1b[0m";
    let image = image(&[(0, data(0, text))], None);
    assert!(image.contains("fill=\"#cd0000\" class=\"b\">&lt;b&gt;</text>"), "{image}");
    assert!(image.contains("fill=\"#dddddd\"/>"), "the inverse background: {image}");
    assert!(!image.contains("animation:"), "one frame needs no animation: {image}");
}

#[test]
fn image_is_as_large_as_the_largest_screen() {
    let image =
        image(&[(0, resize(10, 2)), (100, data(0, "a")), (400, resize(30, 5)), (800, data(1, "b"))], None);
    assert!(image.contains("viewBox=\"0 0 276.0 114.0\""), "{image}");
}

#[test]
fn number_of_frames_is_bounded() {
    // Two texts in turn, so that every frame differs from the one before.
    let text = |n: u64| if n.is_multiple_of(2) { "\rx" } else { "\ry" };
    let records: Vec<_> = (0..5_000).map(|n| (n * 100, data(n * 2, text(n)))).collect();
    let frames = count(&image(&records, None), "<g transform=");
    assert!((500..=2_000).contains(&frames), "{frames}");
}

#[test]
fn empty_recording_has_one_blank_frame() {
    let image = image(&[], None);
    assert_eq!(count(&image, "<g transform="), 1, "{image}");
}
