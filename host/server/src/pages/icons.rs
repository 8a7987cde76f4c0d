//! Line drawings: the inner part of a 24 × 24 SVG. Those of methods come from their modules.

use kassette_domain::routing::{MethodDescription, Shape};

/// Done.
pub(crate) const CHECK: &str = r#"<path d="m5 12.5 4.5 4.5L19 7.5"/>"#;
/// Waiting.
pub(crate) const CLOCK: &str = r#"<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5l3.5 2"/>"#;
/// Over.
pub(crate) const STOP: &str = r#"<path d="M12 6.5v7"/><path d="M12 17.4v.1"/>"#;
/// Next.
pub(crate) const ARROW: &str = r#"<path d="M5 12h14"/><path d="m13 6 6 6-6 6"/>"#;

const COINS: &str = r#"<circle cx="9" cy="9" r="5.5"/><path d="M15.6 8.2a5.5 5.5 0 1 1-7.3 7.4"/>"#;

/// A method's drawing: its module's, or coins.
pub(crate) fn of(method: &MethodDescription) -> String {
    if method.icon.is_empty() {
        return COINS.into();
    }
    // Path data holds nothing that an attribute's value could not.
    let shape = |shape: &Shape| match shape {
        Shape::Line(path) => format!(r#"<path d="{}"/>"#, path.as_str()),
        Shape::Area(path) => format!(
            r#"<path d="{}" fill="currentColor" stroke="none"/>"#,
            path.as_str()
        ),
    };
    method.icon.iter().map(shape).collect()
}
