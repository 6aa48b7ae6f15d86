//! Reading Prometheus' text format, as far as tests need it.

/// The value of the one series with this name and, among others, these labels.
pub fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut found = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, pairs) = series.split_once('{').unwrap_or((series, "}"));
        let pairs: Vec<&str> = pairs.trim_end_matches('}').split(',').collect();
        let wanted = labels.iter().all(|(label, value)| pairs.contains(&format!("{label}=\"{value}\"").as_str()));
        (found == name && wanted).then(|| value.parse().unwrap())
    });
    let first = found.next();
    assert!(found.next().is_none(), "several series {name} with {labels:?}:\n{text}");
    first
}
