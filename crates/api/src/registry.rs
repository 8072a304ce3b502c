//! The list of all requests, for everything that walks them: schemas, handlers, commands.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::reply::Reply;
use crate::request::{Request, RequestKind};

/// Calls the macro `$callback` with the types of all requests, sorted by name.
#[macro_export]
macro_rules! for_each_request {
    ($callback:ident) => {
        $callback! {
            $crate::action::ActionArchive,
            $crate::action::ActionCreate,
            $crate::action::ActionList,
            $crate::action::ActionShow,
            $crate::action::ActionValidate,
            $crate::actor::ActorAdd,
            $crate::actor::ActorList,
            $crate::actor::ActorRemove,
            $crate::actor::ActorRun,
            $crate::actor::ActorShow,
            $crate::actor::ActorValidate,
            $crate::automation_profile::AutomationProfileAdd,
            $crate::automation_profile::AutomationProfileList,
            $crate::automation_profile::AutomationProfileShow,
            $crate::blame::Blame,
            $crate::gc::Gc,
            $crate::info::Info,
            $crate::invariant::InvariantAdd,
            $crate::invariant::InvariantList,
            $crate::invariant::InvariantRemove,
            $crate::plan::PlanApply,
            $crate::plan::PlanArtifacts,
            $crate::plan::PlanCancel,
            $crate::plan::PlanCheckpoints,
            $crate::plan::PlanCorrect,
            $crate::plan::PlanDelete,
            $crate::plan::PlanDiff,
            $crate::plan::PlanErrors,
            $crate::plan::PlanExecute,
            $crate::plan::PlanExplain,
            $crate::plan::PlanFind,
            $crate::plan::PlanFindRecent,
            $crate::plan::PlanList,
            $crate::plan::PlanLog,
            $crate::plan::PlanPreviewApply,
            $crate::plan::PlanPreviewResume,
            $crate::plan::PlanPrompt,
            $crate::plan::PlanPurge,
            $crate::plan::PlanRebase,
            $crate::plan::PlanReject,
            $crate::plan::PlanResume,
            $crate::plan::PlanRevert,
            $crate::plan::PlanRollback,
            $crate::plan::PlanStart,
            $crate::plan::PlanStatus,
            $crate::plan::PlanTree,
            $crate::plan::PlanUnapply,
            $crate::plan::PlanUse,
            $crate::plan::PlanVerify,
            $crate::project::ProjectCreate,
            $crate::project::ProjectDelete,
            $crate::project::ProjectLinkResource,
            $crate::project::ProjectList,
            $crate::project::ProjectShow,
            $crate::project::ProjectUnlinkResource,
            $crate::resource::ResourceAdd,
            $crate::resource::ResourceList,
            $crate::resource::ResourceRemove,
            $crate::resource::ResourceShow,
            $crate::resource::ResourceTree,
            $crate::sandbox::SandboxGc,
            $crate::sandbox::SandboxList,
            $crate::sandbox::SandboxShow,
            $crate::tool::ToolList,
            $crate::tool::ToolRun,
            $crate::tool::ToolShow,
            $crate::validation::ValidationAdd,
            $crate::validation::ValidationAttach,
            $crate::validation::ValidationDetach,
            $crate::validation::ValidationList,
            $crate::validation::ValidationRemove,
            $crate::validation::ValidationShow,
            $crate::verify_commit::VerifyCommit,
        }
    };
}

/// One type of request.
#[derive(Debug, Clone, Copy)]
pub struct RequestInfo {
    pub name: &'static str,
    pub kind: RequestKind,
    schema: fn() -> Value,
}

impl RequestInfo {
    fn of<R: Request>() -> Self {
        Self {
            name: R::NAME,
            kind: R::KIND,
            schema: schema_of::<R>,
        }
    }

    /// Returns the JSON Schema of the request and its reply. For its failure it refers to
    /// [`failure_schema`], in the file `failure.json` beside it.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// Returns all requests, sorted by name.
pub fn all_requests() -> Vec<RequestInfo> {
    macro_rules! infos {
        ($($request:ty),+ $(,)?) => { vec![$(RequestInfo::of::<$request>()),+] };
    }
    for_each_request!(infos)
}

/// Returns the JSON Schema of the failure of every request.
pub fn failure_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<Failure>().into()
}

fn schema_of<R: Request>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let request = generator.subschema_for::<R>();
    let reply = generator.subschema_for::<Reply<R::Answer>>();
    let failure = json!({"$ref": "failure.json"});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": R::NAME,
        "type": "object",
        "properties": {"request": request, "reply": reply, "failure": failure},
        "$defs": generator.take_definitions(true),
    })
}
