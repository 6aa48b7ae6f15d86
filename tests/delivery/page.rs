//! The page that `simulate --html` writes, in a real browser: on a phone and a desk, light and dark, by keyboard.

mod browser;

use std::collections::BTreeSet;

use browser::Browser;
use serde_json::{Value, json};

/// Windows, a blackout, and a fleet in which nodes expire.
const POLICY: &str = r#"
apiVersion: noderotation.io/v1alpha1
kind: RotationPolicy
metadata: {name: nights}
spec:
  nodePoolSelector: {matchLabels: {workload: api}}
  maintenanceWindows: [{timezone: Europe/Berlin, days: [Wed, Sat], start: "02:00", end: "06:00"}]
  blackouts: [{timezone: Europe/Berlin, from: 2026-12-19, to: 2026-12-27, reason: holidays}]
"#;

/// Every text on the page whose contrast to what is behind it is under 4.5, as WCAG 2.2 (AA) asks.
const CONTRAST: &str = r"
const parse = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
const light = ([r, g, b]) => { const f = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const behind = element => { for (let e = element; e; e = e.parentElement) {
  const colour = parse(getComputedStyle(e).backgroundColor); if (colour[3] > 0) return colour; } return [255, 255, 255, 1]; };
const poor = []; let seen = 0;
for (const e of document.body.querySelectorAll('*')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || e.getClientRects().length === 0 || e.closest('svg')) continue;
  seen += 1;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.outerHTML.slice(0, 120));
}
return {seen, poor, page: getComputedStyle(document.body).backgroundColor};";

fn written() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (policy, page) = (folder.path().join("policy.yaml"), folder.path().join("page.html"));
    std::fs::write(&policy, POLICY).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_noderotation"));
    command.args(["simulate", "--from", "2026-12-01", "--nodes", "10", "--pools", "2", "--policy"]).arg(policy).arg("--html").arg(&page);
    assert!(command.output().unwrap().status.success());
    (folder, format!("file://{}", page.display()))
}

#[test]
fn the_forecast_s_page_works_on_a_phone_and_a_desk_in_light_and_dark_and_by_keyboard() {
    let (_folder, page) = written();
    let phone = json!({"deviceMetrics": {"width": 390, "height": 844, "pixelRatio": 2, "touch": true}});
    for (width, emulation) in [(390, Some(phone)), (1280, None)] {
        let browser = Browser::start(emulation);
        browser.open(&page);
        fits(&browser, width);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            is_legible(&browser, scheme);
        }
        every_mark_is_reached(&browser);
        assert_eq!(browser.complaints(), Vec::<Value>::new());
    }
}

/// Nothing makes the page wider than the screen.
fn fits(browser: &Browser, width: u64) {
    let measured = browser.run("return [innerWidth, document.documentElement.scrollWidth]");
    assert!(measured[1].as_u64().unwrap() <= width.max(measured[0].as_u64().unwrap()), "{measured}");
    assert!(width > 390 || measured[0] == 390, "{measured}");
}

fn is_legible(browser: &Browser, scheme: &str) {
    let told = browser.run(CONTRAST);
    assert_eq!(told["poor"], json!([]), "{scheme}");
    assert!(told["seen"].as_u64().unwrap() > 100, "{told}");
    assert_eq!(told["page"] == "rgb(255, 255, 255)", scheme == "light", "{told}");
}

/// Tab goes through every mark, each says what it is, and Enter leads to its row.
fn every_mark_is_reached(browser: &Browser) {
    let label = "return document.activeElement.classList.contains('mark') ? document.activeElement.getAttribute('aria-label') \
        + document.activeElement.getAttribute('href') : ''";
    let all = browser.run("return [...document.querySelectorAll('.mark')].map(e => e.getAttribute('aria-label') + e.getAttribute('href'))");
    let all: BTreeSet<String> = all.as_array().unwrap().iter().map(|label| label.as_str().unwrap().to_owned()).collect();
    assert!(all.iter().any(|label| label.contains(" replaced#pool-0-2026-12-02")), "{all:?}");
    assert!(all.iter().any(|label| label.contains(" expired by Karpenter#")), "{all:?}");
    let mut reached = BTreeSet::new();
    for _ in 0..3 * all.len() + 20 {
        browser.press('\u{e004}');
        reached.insert(browser.run(label).as_str().unwrap().to_owned());
    }
    reached.remove("");
    assert_eq!(reached, all);
    browser.run("document.querySelector('.mark').focus()");
    browser.press('\u{e007}');
    let row = browser.run("const row = document.querySelector(':target'); return [row.tagName, row.id === location.hash.slice(1)]");
    assert_eq!(row, json!(["TR", true]));
}
