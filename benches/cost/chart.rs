//! The curves as SVG: wall time, CPU time, peak memory and bytes over the number of NodeClaims.

use std::fmt::Write;

use crate::{fleet::Mood, scenario::Seen};

/// One panel's drawing area, and what surrounds it.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 46.0;
const STEP: (f64, f64) = (WIDTH + LEFT + 30.0, HEIGHT + TOP + 40.0);

type Value = fn(&Seen) -> f64;

/// A line: its name, colour, mood and value.
type Line = (&'static str, &'static str, Mood, Value);

/// Draws them.
pub fn curves(seen: &[Seen]) -> String {
    let wall: [Value; 2] = [|seen| seen.pass.wall.as_secs_f64() * 1e3, |seen| seen.raw.wall.as_secs_f64() * 1e3];
    let cpu: [Value; 2] = [|seen| seen.pass.cpu.as_secs_f64() * 1e3, |seen| seen.raw.cpu.as_secs_f64() * 1e3];
    let memory: [Value; 2] = [|seen| seen.pass.memory as f64 / 1e3, |seen| seen.raw.memory as f64 / 1e3];
    let bytes: [Value; 2] = [|seen| seen.traffic.both() as f64 / 1e6, |seen| seen.raw_traffic.both() as f64 / 1e6];
    let panels = [("Wall time, ms", wall), ("CPU time, ms", cpu), ("Peak memory, MB", memory), ("Bytes on the wire, MB", bytes)];
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0} {:.0}" font-family="sans-serif" font-size="11">"#,
        2.0 * STEP.0 + 10.0,
        2.0 * STEP.1 + 30.0
    );
    svg.push_str(
        "\n<title>What a pass costs, by the number of NodeClaims</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
    );
    for (index, (title, [pass, raw])) in panels.into_iter().enumerate() {
        let lines: [Line; 4] = [
            ("raw lists", "#888888", Mood::Outside, raw),
            ("idle, outside the window", "#1f77b4", Mood::Outside, pass),
            ("idle, all claims due, gated", "#2ca02c", Mood::Gated, pass),
            ("ten pools start a rotation", "#d62728", Mood::Rotating, pass),
        ];
        let (x, y) = ((index % 2) as f64 * STEP.0 + LEFT, (index / 2) as f64 * STEP.1 + TOP);
        let _ = writeln!(svg, r#"<g transform="translate({x} {y})">"#);
        panel(&mut svg, title, &lines, seen);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, title: &str, lines: &[Line], seen: &[Seen]) {
    let points =
        |mood: Mood, value: Value| seen.iter().filter(move |seen| seen.mood == mood).map(move |seen| (seen.claims as f64, value(seen)));
    let all = || lines.iter().flat_map(|(_, _, mood, value)| points(*mood, *value));
    let right = all().map(|(x, _)| x).fold(1.0, f64::max);
    let (step, ticks) = scale(all().map(|(_, y)| y).fold(0.0, f64::max));
    let highest = step * ticks as f64;
    let place = |x: f64, y: f64| (x / right * WIDTH, HEIGHT - y / highest * HEIGHT);
    let _ = writeln!(svg, r#"<text x="0" y="-30" font-size="13" font-weight="bold">{title}</text>"#);
    for tick in 0..=ticks {
        let value = step * tick as f64;
        let (_, y) = place(0.0, value);
        let _ = writeln!(
            svg,
            r##"<path d="M0 {y:.1}H{WIDTH}" stroke="#dddddd"/><text x="-6" y="{:.1}" text-anchor="end">{value}</text>"##,
            y + 4.0
        );
    }
    let mut sizes: Vec<usize> = seen.iter().map(|seen| seen.claims).collect();
    sizes.dedup();
    for size in sizes {
        let (x, y) = place(size as f64, 0.0);
        let _ = writeln!(svg, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{size}</text>"#, y + 16.0);
    }
    for (index, (name, colour, mood, value)) in lines.iter().enumerate() {
        let path: Vec<String> = points(*mood, *value).map(|(x, y)| place(x, y)).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
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
