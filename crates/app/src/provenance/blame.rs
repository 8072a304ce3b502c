//! `blame`

use cleveragents_api::blame::{
    Blame, BlamedFile, BlamedFileLine, LineCall, LineCommit, LineDecision, LinePlan,
};
use cleveragents_api::{ExitClass, Reply};
use cleveragents_domain::Timestamp;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::provenance::{FileOrigins, LineWithOrigin, MissingTrees};

use super::reader;
use crate::app::{App, Caller, Handler};
use crate::failure::{RequestError, display_path};

impl Handler<Blame> for App {
    async fn handle(&self, request: Blame, _: &Caller) -> Result<Reply<BlamedFile>, RequestError> {
        let reader = reader(&self.services)?;
        let found = reader.blame(request.file.clone(), request.lines).await?;
        let Some(found) = found else {
            let file = display_path(&request.file);
            let what = format!("{file} is not a file of the commit that is checked out");
            return Err(RequestError::new(ExitClass::NotFound, what).hint("git ls-files"));
        };
        if let Some(lines) = request.lines.filter(|_| found.lines.is_empty()) {
            let what = format!("the file has no line {}", lines.first);
            return Err(RequestError::usage(what));
        }
        let without_trees = found.without_trees.clone();
        let unrecorded = found.lines.iter().filter_map(|it| it.plan.as_ref());
        let has_unrecorded = unrecorded.into_iter().any(|it| it.apply.is_none());
        let mut reply = Reply::new(answer(found));
        for (plan, missing) in without_trees {
            reply = reply.warn(missing_trees_warning(plan, &missing));
        }
        if has_unrecorded {
            reply = reply.warn(
                "some commits name a plan, but no apply recorded here made them; `agents \
                 verify-commit` says why",
            );
        }
        Ok(reply)
    }
}

fn missing_trees_warning(plan: PlanId, missing: &MissingTrees) -> String {
    let plan = plan.short();
    let place = match missing {
        MissingTrees::Removed => "is gone".to_owned(),
        MissingTrees::OtherNode(node) => format!("is on another machine, node {node}"),
    };
    format!(
        "the sandbox of plan {plan} {place}, so which of its calls wrote a line is known only if a \
         single call changed the file"
    )
}

fn answer(found: FileOrigins) -> BlamedFile {
    BlamedFile {
        repository: found.root,
        path: found.path,
        lines: found.lines.into_iter().map(line).collect(),
    }
}

fn line(found: LineWithOrigin) -> BlamedFileLine {
    let (line, plan) = (found.line, found.plan);
    let call = plan.as_ref().and_then(|it| it.call.clone());
    let decision = plan.as_ref().and_then(|it| it.decision.clone());
    BlamedFileLine {
        line: line.number,
        text: String::from_utf8_lossy(&line.text).into_owned(),
        commit: line.origin.map(|it| LineCommit {
            id: it.commit,
            author: it.author,
            at: Timestamp::from_micros(it.seconds.saturating_mul(1_000_000)),
            subject: it.subject,
            path: it.path,
            line: it.number,
        }),
        plan: plan.map(|it| LinePlan {
            plan_id: it.id,
            name: it.name,
            direction: it.apply,
        }),
        decision: decision.map(|it| LineDecision {
            decision_id: it.id,
            question: it.question,
        }),
        call: call.map(|it| LineCall {
            tool_call_id: it.id,
            number: it.number,
            tool: it.tool,
            actor: it.actor,
            step: it.step,
        }),
    }
}
