//! Curves as SVG: panels of lines over one quantity.

use std::fmt::Write;

/// One panel's drawing area, and what surrounds it.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 46.0;
/// From the middle of one label to that of the next, at least.
const LABEL: f64 = 32.0;
const STEP: (f64, f64) = (WIDTH + LEFT + 30.0, HEIGHT + TOP + 40.0);

/// A line: its name, its colour and its points, from left to right.
pub type Line = (&'static str, &'static str, Vec<(f64, f64)>);

/// Draws panels, two in a row, each with its title.
pub fn curves(title: &str, panels: &[(&str, Vec<Line>)]) -> String {
    let rows = panels.len().div_ceil(2) as f64;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0} {:.0}" font-family="sans-serif" font-size="11">"#,
        2.0 * STEP.0 + 10.0,
        rows * STEP.1 + 30.0
    );
    let _ = write!(svg, "\n<title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    for (index, (title, lines)) in panels.iter().enumerate() {
        let (x, y) = ((index % 2) as f64 * STEP.0 + LEFT, (index / 2) as f64 * STEP.1 + TOP);
        let _ = writeln!(svg, r#"<g transform="translate({x} {y})">"#);
        panel(&mut svg, title, lines);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, title: &str, lines: &[Line]) {
    let all = || lines.iter().flat_map(|(_, _, points)| points);
    let right = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let (step, ticks) = scale(all().map(|(_, y)| *y).fold(0.0, f64::max));
    let highest = step * ticks as f64;
    let place = |x: f64, y: f64| (x / right * WIDTH, HEIGHT - y / highest * HEIGHT);
    let _ = writeln!(svg, r#"<text x="0" y="-30" font-size="13" font-weight="bold">{title}</text>"#);
    for tick in 0..=ticks {
        let value = step * tick as f64;
        let (_, y) = place(0.0, value);
        let digits = usize::from(step.fract() != 0.0);
        let _ = writeln!(
            svg,
            r##"<path d="M0 {y:.1}H{WIDTH}" stroke="#dddddd"/><text x="-6" y="{:.1}" text-anchor="end">{value:.digits$}</text>"##,
            y + 4.0
        );
    }
    let mut sizes: Vec<f64> = all().map(|(x, _)| *x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut free_from = f64::NEG_INFINITY;
    for size in sizes {
        let (x, y) = place(size, 0.0);
        if x < free_from {
            continue;
        }
        free_from = x + LABEL;
        let _ = writeln!(svg, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{size}</text>"#, y + 16.0);
    }
    for (index, (name, colour, points)) in lines.iter().enumerate() {
        let path: Vec<String> = points.iter().map(|(x, y)| place(*x, *y)).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(svg, r#"<path d="M{}" fill="none" stroke="{colour}" stroke-width="2"/>"#, path.join("L"));
        for point in path {
            let (x, y) = point.split_once(' ').unwrap();
            let _ = writeln!(svg, r#"<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>"#);
        }
        let (x, y) = ((index % 2) as f64 * 150.0, -16.0 + (index / 2) as f64 * 12.0);
        let _ = writeln!(svg, r#"<text x="{x}" y="{y}" fill="{colour}" font-size="10">{name}</text>"#);
    }
}

/// The distance of the grid's lines, and how many there are, so that the highest value fits.
fn scale(highest: f64) -> (f64, usize) {
    let magnitude = 10_f64.powf((highest / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|step| step * 5.0 >= highest).unwrap_or(magnitude);
    (step, (highest / step).ceil() as usize)
}
