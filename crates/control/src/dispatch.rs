//! Which function of the life-cycle a request runs: in the queue of its token, and what is noted of its end. Handlers
//! (`requests/`) call this.

mod noting;

use std::sync::Arc;
use std::time::Instant;

use model::Token;
use model::phase::Function;
use wire::control::{
    ApiError, CreatePersistent, DataOut, PostRun, PreRun, Setup, ShutdownReply, Teardown, TeardownReply,
};

use crate::app::App;
use crate::lifecycle::{self, reuse};
use crate::node_api::Unmount;
use crate::site::Site;
use crate::state::{activations, sessions, transfers};
use crate::token_queue::Call;
use crate::transfers::script;

/// A life-cycle function that changes something, with its arguments.
#[derive(serde::Serialize)]
pub(crate) enum Request {
    Setup(Box<Setup>),
    Create(Box<CreatePersistent>),
    DataIn,
    PreRun(PreRun),
    PostRun(PostRun),
    DataOut(DataOut),
    Teardown(Teardown),
}

impl Request {
    fn call(&self) -> Call {
        let (function, hurry) = match self {
            Request::Setup(_) | Request::Create(_) => (Function::Setup, false),
            Request::DataIn => (Function::DataIn, false),
            Request::PreRun(_) => (Function::PreRun, false),
            Request::PostRun(how) => (Function::PostRun, how.hurry),
            Request::DataOut(_) => (Function::DataOut, false),
            Request::Teardown(how) => (Function::Teardown, how.hurry),
        };
        let arguments = serde_json::to_string(self).expect("requests have only string keys");
        Call { function, hurry, arguments }
    }
}

impl<S: Site> App<S> {
    /// Runs or joins a life-cycle function and replies when it is done.
    ///
    /// # Errors
    /// The function's; it is also kept in the session's status.
    pub(crate) async fn run(self: &Arc<Self>, token: &Token, request: Request) -> Result<(), ApiError> {
        self.make_way(token, &request).await;
        let (app, name, call) = (Arc::clone(self), token.clone(), request.call());
        let function = call.function;
        self.queues
            .run(token, call, move |cancelled| async move {
                let started = Instant::now();
                let result = match request {
                    Request::Setup(setup) => lifecycle::setup::run(&app, &name, *setup).await,
                    Request::Create(create) => lifecycle::persistent::run(&app, &name, *create).await,
                    Request::DataIn => lifecycle::data_in::run(&app, &name, cancelled).await,
                    Request::PreRun(how) => lifecycle::pre_run::run(&app, &name, how).await,
                    Request::PostRun(how) => lifecycle::post_run::run(&app, &name, how).await,
                    Request::DataOut(how) => lifecycle::data_out::run(&app, &name, how, cancelled).await,
                    Request::Teardown(how) => lifecycle::teardown::run(&app, &name, how).await,
                };
                app.finish_quarantined();
                app.note(&name, function, result, started).await
            })
            .await
    }

    /// Goes on with what an earlier life of control was to finish by itself.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn resume_quarantined(self: &Arc<Self>) -> Result<(), ApiError> {
        let tokens = self.database.transact(sessions::to_finish).await?;
        tokens.into_iter().for_each(|token| self.finish_later(token));
        self.finish_quarantined();
        Ok(())
    }

    fn finish_quarantined(self: &Arc<Self>) {
        for token in self.take_to_finish() {
            let app = Arc::clone(self);
            tokio::spawn(async move {
                let functions =
                    [Request::DataOut(DataOut::default()), Request::Teardown(Teardown::default())];
                for function in functions {
                    if let Err(error) = app.run(&token, function).await {
                        tracing::warn!(?token, %error, "cannot finish a quarantined session");
                        return;
                    }
                }
            });
        }
    }

    /// Replies why the data was kept, if it was.
    ///
    /// # Errors
    /// `no_such_session`, or a node does not let go.
    pub(crate) async fn teardown(
        self: &Arc<Self>,
        token: &Token,
        how: Teardown,
    ) -> Result<TeardownReply, ApiError> {
        let number = self.session(token).await?.number;
        self.run(token, Request::Teardown(how)).await?;
        let found = self.database.transact(move |tx| sessions::numbered(tx, number)).await?;
        // Another session has the token of one that is not there any more.
        let Some(session) = found else { return Ok(TeardownReply { kept: None, renamed: None }) };
        let renamed = (session.token != *token).then_some(session.token);
        Ok(TeardownReply { kept: session.kept, renamed })
    }

    /// Stops a running `data_in` or `data_out`, also one that an earlier life of control began.
    ///
    /// # Errors
    /// `no_such_session`, or the node does not answer.
    pub(crate) async fn cancel(&self, token: &Token) -> Result<(), ApiError> {
        let session = self.session(token).await?;
        let data_in = self.queues.cancel(&session.token, Function::DataIn).await;
        let data_out = self.queues.cancel(&session.token, Function::DataOut).await;
        if !data_in && !data_out {
            script::stop_leftovers(self, &session).await?;
        }
        Ok(())
    }

    /// Stops the nodes if nothing is mounted and nothing runs; control itself then has nothing left to do. Must not be
    /// cut off: it would stay closed.
    ///
    /// # Errors
    /// A node does not end.
    pub(crate) async fn shutdown(&self) -> Result<ShutdownReply, ApiError> {
        if let Err(token) = self.queues.close() {
            return Ok(ShutdownReply { busy: Some(format!("a function of session {token} runs")) });
        }
        let reply = self.stop_unless_mounted().await;
        if !matches!(reply, Ok(ShutdownReply { busy: None })) {
            self.queues.reopen();
        }
        reply
    }

    async fn stop_unless_mounted(&self) -> Result<ShutdownReply, ApiError> {
        if let Some((token, mountpoint)) = self.database.transact(activations::any_mounted).await? {
            let busy = format!("session {token} is mounted at {}", mountpoint.display());
            return Ok(ShutdownReply { busy: Some(busy) });
        }
        if let Some(token) = self.database.transact(transfers::any_at_work).await? {
            return Ok(ShutdownReply { busy: Some(format!("a stage of session {token} is under way")) });
        }
        self.site.stop_nodes().await?;
        Ok(ShutdownReply { busy: None })
    }

    /// A call in a hurry does not wait behind a patient one of minutes: that one is made to end first.
    async fn make_way(&self, token: &Token, request: &Request) {
        let (unmount, stop) = match request {
            Request::Setup(setup) => {
                let known = lifecycle::setup::living(self, token).await;
                (false, matches!(known, Ok(Some(known)) if reuse::is_reused(&known, setup)))
            }
            // Its manager has forgotten the job: it calls this only when everything else is over.
            Request::Teardown(Teardown { hurry: false }) => {
                let known = lifecycle::setup::living(self, token).await;
                (false, matches!(known, Ok(Some(known)) if known.is_of_job()))
            }
            Request::PostRun(PostRun { hurry: true, .. }) => (true, false),
            Request::Teardown(Teardown { hurry: true }) => (true, true),
            _ => return,
        };
        if stop {
            for function in reuse::CUT_SHORT {
                self.queues.cancel(token, function).await;
            }
        }
        if unmount
            && self.queues.running(token) == Some(Function::PostRun)
            && let Ok(session) = self.session(token).await
            && let Err(error) = lifecycle::mounts::unmount_all(self, &session, Unmount::AtOnce).await
        {
            tracing::warn!(?token, %error, "a hurried unmount failed, wait for the patient one");
        }
    }
}

#[cfg(test)]
mod tests;
