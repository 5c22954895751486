//! Colours for a light and a dark page. The plot is drawn in the light ones; a rule of CSS puts the dark ones in their place
//! where a person's system asks for that.

use std::fmt::Write;

use plotters::style::RGBColor;

/// A colour on a light page, and its counterpart on a dark one.
type Pair = [u32; 2];

const PAPER: Pair = [0xff_ff_ff, 0x0d_11_17];
const INK: Pair = [0x1f_23_28, 0xe6_ed_f3];
const FAINT: Pair = [0x59_63_6e, 0x9d_a7_b3];
const GRID: Pair = [0xe4_e8_ec, 0x24_2b_33];

/// Blue, orange, green, purple, red, teal, pink, gold: each has a contrast of at least 3 to 1 to its page.
const LINES: [Pair; 8] = [
    [0x1f_6f_eb, 0x58_a6_ff],
    [0xc4_55_00, 0xf0_88_3e],
    [0x1a_7f_37, 0x3f_b9_50],
    [0x82_50_df, 0xbc_8c_ff],
    [0xcf_22_2e, 0xff_7b_72],
    [0x0b_80_80, 0x39_c5_cf],
    [0xbf_39_89, 0xf7_78_ba],
    [0x8f_65_00, 0xd2_99_22],
];

/// How many there are before they begin again.
pub(super) const COUNT: usize = LINES.len();

pub(super) fn paper() -> RGBColor {
    rgb(PAPER[0])
}

pub(super) fn ink() -> RGBColor {
    rgb(INK[0])
}

pub(super) fn faint() -> RGBColor {
    rgb(FAINT[0])
}

pub(super) fn grid() -> RGBColor {
    rgb(GRID[0])
}

/// Lines of the same colour have other marks.
pub(super) fn line(number: usize) -> RGBColor {
    rgb(LINES[number % COUNT][0])
}

fn rgb(colour: u32) -> RGBColor {
    let [_, red, green, blue] = colour.to_be_bytes();
    RGBColor(red, green, blue)
}

/// The style sheet. An attribute such as `fill="#FFFFFF"` gives way to any rule.
pub(super) fn style() -> String {
    let mut rules = String::new();
    for [light, dark] in [PAPER, INK, FAINT, GRID].iter().chain(&LINES) {
        for attribute in ["fill", "stroke"] {
            // Writing to a string cannot fail.
            let _ = writeln!(rules, "[{attribute}=\"#{light:06X}\"]{{{attribute}:#{dark:06X}}}");
        }
    }
    format!("<style>@media (prefers-color-scheme:dark){{\n{rules}}}</style>\n")
}
