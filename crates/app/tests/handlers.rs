//! Every request has a handler.

use cleveragents_api::{Request, all_requests, for_each_request};
use cleveragents_app::{App, Handler};

/// Compiles only if the application handles `R`.
fn handled<R: Request>() -> &'static str
where
    App: Handler<R>,
{
    R::NAME
}

macro_rules! handled_names {
    ($($request:ty),+ $(,)?) => { vec![$(handled::<$request>()),+] };
}

#[test]
fn every_request_has_a_handler() {
    let handled: Vec<&str> = for_each_request!(handled_names);
    let all: Vec<&str> = all_requests().iter().map(|it| it.name).collect();
    assert_eq!(handled, all);
}
