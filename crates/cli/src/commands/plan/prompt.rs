//! `agents plan prompt`

use clap::Args;
use cleveragents_domain::action::TEXT_MAXIMUM;
use cleveragents_engine::lifecycle::Addressee;
use serde_json::{Value, json};

use super::shown::{find, position, standing};
use crate::commands::Context;
use crate::failure::{Failure, excerpt};
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::PlanArgument;

/// Tell a plan something: guidance, or the answer to its question
///
/// The process that runs the plan gets it at its next step; otherwise whoever runs it next does.
/// It is also recorded among the plan's decisions.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan prompt 4k2m9x0q 'keep the public interface as it is'
  agents plan prompt 4k2m9x0q yes")]
pub struct Prompt {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// What to tell it
    #[arg(value_name = "GUIDANCE")]
    guidance: String,
}

impl Prompt {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        if self.guidance.trim().is_empty() {
            return Err(
                Failure::usage("the guidance is empty").hint("say what the plan should know")
            );
        }
        if self.guidance.len() > TEXT_MAXIMUM {
            return Err(Failure::usage("the guidance is too long").because(format!(
                "it may be {TEXT_MAXIMUM} bytes long, this one has {}",
                self.guidance.len()
            )));
        }
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let plan = find(&wired, &self.plan)?;
        let id = plan.identity.plan_id;
        let prompted = wired.lifecycle();
        let guidance = wired.hide(&self.guidance)?;
        let prompted = wired.wait(prompted.prompt(id, &guidance, wired.actor()))?;
        let (to, said) = match prompted.to {
            Addressee::Owner => ("owner", "the process that runs the plan gets it next"),
            Addressee::NextOwner => ("next_owner", "whoever runs the plan next gets it"),
        };
        let mut data = standing(&prompted.plan);
        let more = json!({
            "guidance": self.guidance,
            "message_id": prompted.message.id,
            "sequence": prompted.message.sequence,
            "delivered_to": to,
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let view = View::new().panel(
            "Guidance",
            [
                ("plan", Cell::new(id.short(), Tone::Strong)),
                ("stands at", position(prompted.plan.position)),
                ("guidance", excerpt(&self.guidance).into()),
                ("number", prompted.message.sequence.to_string().into()),
            ],
        );
        let answer = Answer::new(Value::Object(data), view).say(Level::Info, said);
        Ok(match prompted.to {
            Addressee::Owner => answer,
            Addressee::NextOwner => answer.say(Level::Hint, format!("agents plan resume {id}")),
        })
    }
}
