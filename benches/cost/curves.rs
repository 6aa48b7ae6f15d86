//! The curves: wall time, CPU time, peak memory and bytes over the number of NodeClaims.

use crate::{chart, fleet::Mood, scenario::Seen};

type Value = fn(&Seen) -> f64;

/// Draws them.
pub fn curves(seen: &[Seen]) -> String {
    let wall: [Value; 2] = [|seen| seen.pass.wall.as_secs_f64() * 1e3, |seen| seen.raw.wall.as_secs_f64() * 1e3];
    let cpu: [Value; 2] = [|seen| seen.pass.cpu.as_secs_f64() * 1e3, |seen| seen.raw.cpu.as_secs_f64() * 1e3];
    let memory: [Value; 2] = [|seen| seen.pass.memory as f64 / 1e3, |seen| seen.raw.memory as f64 / 1e3];
    let bytes: [Value; 2] = [|seen| seen.traffic.both() as f64 / 1e6, |seen| seen.raw_traffic.both() as f64 / 1e6];
    let panels = [("Wall time, ms", wall), ("CPU time, ms", cpu), ("Peak memory, MB", memory), ("Bytes on the wire, MB", bytes)];
    let points = |mood: Mood, value: Value| -> Vec<(f64, f64)> {
        seen.iter().filter(|seen| seen.mood == mood).map(|seen| (seen.claims as f64, value(seen))).collect()
    };
    let panels = panels.map(|(title, [pass, raw])| {
        let lines = vec![
            ("raw lists", "#888888", points(Mood::Outside, raw)),
            ("idle, outside the window", "#1f77b4", points(Mood::Outside, pass)),
            ("idle, all claims due, gated", "#2ca02c", points(Mood::Gated, pass)),
            ("ten pools start a rotation", "#d62728", points(Mood::Rotating, pass)),
        ];
        (title, lines)
    });
    chart::curves("What a pass costs, by the number of NodeClaims", &panels)
}
