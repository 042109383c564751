//! `/metrics` in the Prometheus text format: numbers are gathered when they are asked for.

use std::sync::atomic::AtomicU64;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use daemon::error::bug;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use wire::control::ErrorCode;

use crate::refusal::Refusal;

/// The type of OpenMetrics text, which Prometheus reads.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A number with labels that can go up and down.
pub type Numbers = Family<Vec<(&'static str, String)>, Gauge<f64, AtomicU64>>;

/// What a service shows at one moment.
#[derive(Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// With the programme's version as the first number.
    pub fn new(service: &str) -> Metrics {
        let mut metrics = Metrics { registry: Registry::with_prefix("forebay") };
        let version = [("service", service.to_owned()), ("version", env!("CARGO_PKG_VERSION").to_owned())];
        metrics.add("build_info", "The version that runs", [(version.to_vec(), 1.0)]);
        metrics
    }

    /// A metric with one number for each set of labels.
    pub fn add(
        &mut self,
        name: &str,
        help: &str,
        numbers: impl IntoIterator<Item = (Vec<(&'static str, String)>, f64)>,
    ) {
        let family = Numbers::default();
        for (labels, number) in numbers {
            family.get_or_create(&labels).set(number);
        }
        self.registry.register(name, help, family);
    }
}

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
            Err(error) => Refusal(bug(ErrorCode::Metrics, error.to_string())).into_response(),
        }
    }
}

/// Bytes and counts as Prometheus has all numbers: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB, and close beyond")]
pub fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn numbers_are_lines_of_text_with_their_labels() {
        let mut metrics = Metrics::new("control");
        metrics.add("pool_grains", "Grains", [(vec![("pool", "wlm_pool".to_owned())], number(7))]);
        let body = axum::body::to_bytes(metrics.into_response().into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let version = format!(
            "forebay_build_info{{service=\"control\",version=\"{}\"}} 1.0\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&version), "{text}");
        assert!(text.contains("forebay_pool_grains{pool=\"wlm_pool\"} 7.0\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
