//! The nodes that serve the store.

use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_store::{ModulesInfo, NodeInfo, NodeStatus};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use crate::web::ApiError;
use crate::web::query::{Query, named};

/// Age of the last heartbeat above which a node counts as lapsed. Nodes send two heartbeats per second, and
/// serve nothing from the store once the last one is too old.
const LAPSED: Duration = Duration::from_millis(1500);

/// `GET /nodes`: sorted by name.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let nodes = state.gateway.store().nodes().await;
    let nodes = nodes.map_err(ApiError::from)?;
    let asked = nodes.iter().find(|node| node.is_self);
    let mut views: Vec<(String, Value)> = nodes
        .iter()
        .map(|node| (node.name.clone(), view(node, asked)))
        .collect();
    let now = state.gateway.clock().now();
    let forgotten = state.reporter.missing_nodes(&nodes);
    views.extend(forgotten.into_iter().map(|(name, last_seen)| {
        let view = missing(&name, now.since(last_seen));
        (name, view)
    }));
    views.sort_by(|(one, _), (other, _)| one.cmp(other));
    named(
        "nodes",
        &views,
        |(name, _)| name,
        |(_, view)| view.clone(),
        &paging,
    )
}

/// A node that ended without removing its row, and that the store no longer lists.
fn missing(name: &str, beat_age: Duration) -> Value {
    let gone = NodeStatus {
        name: name.to_owned(),
        incarnation: 0,
        is_self: false,
        beat_age,
        adopted: 0,
        lag: 0,
        info: NodeInfo::default(),
        modules: ModulesInfo::default(),
    };
    view(&gone, None)
}

/// A node, compared with the node that answers.
fn view(node: &NodeStatus, asked: Option<&NodeStatus>) -> Value {
    let info = &node.info;
    let state = match (info.draining, node.beat_age > LAPSED) {
        (_, true) => "lapsed",
        (true, false) => "draining",
        (false, false) => "live",
    };
    let drift = asked.map_or_else(Vec::new, |asked| info.drift(&asked.info));
    let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": node.name,
        "self": node.is_self,
        "state": state,
        "version": told(&info.version),
        "started_at": (!info.version.is_empty()).then(|| info.started_at.rfc3339()),
        "beat_age_seconds": node.beat_age.as_secs_f64(),
        "lag": node.lag,
        "public_address": told(&info.public_address),
        "admin_address": told(&info.admin_address),
        "configuration": told(&info.configuration),
        "modules": told(&info.modules),
        "drift": drift,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(configuration: &str, beat_age: Duration, draining: bool) -> NodeStatus {
        NodeStatus {
            name: "a".into(),
            incarnation: 1,
            is_self: false,
            beat_age,
            adopted: 7,
            lag: 0,
            info: NodeInfo {
                version: "0.1.0".into(),
                configuration: configuration.into(),
                draining,
                ..NodeInfo::default()
            },
            modules: ModulesInfo::default(),
        }
    }

    #[test]
    fn a_node_that_differs_from_the_one_that_was_asked_is_marked() {
        let asked = node("one", Duration::ZERO, false);
        let drift = |configuration| {
            let other = node(configuration, Duration::ZERO, false);
            view(&other, Some(&asked))["drift"].clone()
        };
        assert_eq!(drift("one"), json!([]));
        assert_eq!(drift("other"), json!(["configuration"]));
        // The node has not reported yet.
        assert_eq!(drift(""), json!([]));
    }

    #[test]
    fn a_node_without_a_beat_has_lapsed_whatever_it_told_before() {
        let state = |age, draining| view(&node("", age, draining), None)["state"].clone();
        assert_eq!(state(Duration::from_millis(500), false), "live");
        assert_eq!(state(Duration::from_millis(500), true), "draining");
        assert_eq!(state(Duration::from_secs(2), true), "lapsed");
    }
}
