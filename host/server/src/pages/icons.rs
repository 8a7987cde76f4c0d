//! Line drawings: the inner part of a 24 × 24 SVG. Icons of methods come from their modules.

use std::fmt;
use std::sync::Arc;

use kassette_domain::routing::{MethodDescription, Shape};

/// Done.
pub(crate) const CHECK: &str = r#"<path d="m5 12.5 4.5 4.5L19 7.5"/>"#;
/// Waiting.
pub(crate) const CLOCK: &str = r#"<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5l3.5 2"/>"#;
/// Ended.
pub(crate) const STOP: &str = r#"<path d="M12 6.5v7"/><path d="M12 17.4v.1"/>"#;
/// Next.
pub(crate) const ARROW: &str = r#"<path d="M5 12h14"/><path d="m13 6 6 6-6 6"/>"#;

const COINS: &str = r#"<circle cx="9" cy="9" r="5.5"/><path d="M15.6 8.2a5.5 5.5 0 1 1-7.3 7.4"/>"#;

/// A method's icon, written into the page: the module's, or a default with coins.
pub(crate) struct Drawn(pub(crate) Arc<MethodDescription>);

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.icon.is_empty() {
            return f.write_str(COINS);
        }
        for shape in &self.0.icon {
            // Path data contains only characters that are valid in an attribute.
            let (path, end) = match shape {
                Shape::Line(path) => (path, r#""/>"#),
                Shape::Area(path) => (path, r#"" fill="currentColor" stroke="none"/>"#),
            };
            for part in [r#"<path d=""#, path.as_str(), end] {
                f.write_str(part)?;
            }
        }
        Ok(())
    }
}
