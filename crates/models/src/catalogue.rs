//! Known facts about models: the user's settings first, then the built-in ones.

use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::provider::ModelDefinition;
use cleveragents_ports::models::ModelFacts;

/// The assumed context of an unknown model, as small as that of typical local models.
const CONTEXT_TOKENS: u64 = 32_768;
const ANSWER_TOKENS: u64 = 4_096;

/// Statements about models, the user's first.
#[derive(Debug)]
pub(crate) struct ModelCatalogue {
    user_defined: Vec<ModelDefinition>,
    built_in: Vec<ModelDefinition>,
}

impl ModelCatalogue {
    pub(crate) fn new(user_defined: Vec<ModelDefinition>, built_in: Vec<ModelDefinition>) -> Self {
        Self {
            user_defined,
            built_in,
        }
    }

    /// Returns the facts about a model, each from the first statement that has it.
    pub(crate) fn facts(&self, choice: &ModelChoice) -> ModelFacts {
        let stated = self.user_defined.iter().find(|it| it.choice == *choice);
        let built_in = self
            .built_in
            .iter()
            .find(|it| is_version(choice, &it.choice));
        let known: Vec<&ModelDefinition> = stated.into_iter().chain(built_in).collect();
        let context_tokens = known.iter().find_map(|it| it.context_tokens);
        let context_tokens = context_tokens.unwrap_or(CONTEXT_TOKENS);
        let answer_tokens = known.iter().find_map(|it| it.answer_tokens);
        ModelFacts {
            choice: choice.clone(),
            price: known.iter().find_map(|it| it.price),
            context_tokens,
            // A small context window must leave room for the request.
            answer_tokens: answer_tokens.unwrap_or(ANSWER_TOKENS.min(context_tokens.div_ceil(4))),
        }
    }

    /// Returns the known models of a provider, in order of preference.
    pub(crate) fn models_of(&self, provider: &str) -> impl Iterator<Item = &ModelChoice> {
        let all = self.user_defined.iter().chain(&self.built_in);
        all.map(|it| &it.choice)
            .filter(move |choice| choice.provider == provider)
    }
}

/// Returns whether `requested` equals `known` or is a dated version of it, such as
/// `gpt-5-2025-08-07`.
fn is_version(requested: &ModelChoice, known: &ModelChoice) -> bool {
    let rest = requested.model.strip_prefix(&known.model);
    let is_date = |rest: &str| {
        let digits = rest.chars().filter(char::is_ascii_digit).count();
        digits >= 6 && rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    requested.provider == known.provider
        && rest.is_some_and(|rest| rest.is_empty() || rest == "-latest" || is_date(rest))
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::model::Price;

    use super::*;

    fn choice(text: &str) -> ModelChoice {
        text.parse().unwrap()
    }

    fn priced(text: &str, input: f64) -> ModelDefinition {
        ModelDefinition {
            choice: choice(text),
            price: Some(Price {
                input,
                output: input,
                cached_input: None,
                cache_write: None,
            }),
            context_tokens: Some(400_000),
            answer_tokens: None,
        }
    }

    fn built_in() -> Vec<ModelDefinition> {
        vec![
            priced("openai/gpt-5", 1.25),
            priced("openai/gpt-5-mini", 0.25),
        ]
    }

    #[test]
    fn a_dated_version_is_the_model_and_a_longer_name_is_not() {
        let catalogue = ModelCatalogue::new(Vec::new(), built_in());
        let price = |text: &str| catalogue.facts(&choice(text)).price;
        assert_eq!(price("openai/gpt-5-2025-08-07"), price("openai/gpt-5"));
        assert_ne!(price("openai/gpt-5-mini"), price("openai/gpt-5"));
        assert_eq!(price("openai/gpt-5-turbo"), None);
        assert_eq!(price("openrouter/gpt-5"), None);
        let unknown = catalogue.facts(&choice("ollama/x"));
        assert_eq!(unknown.context_tokens, CONTEXT_TOKENS);
    }

    #[test]
    fn user_definitions_override_built_in_ones() {
        let free = Price {
            input: 0.0,
            output: 0.0,
            cached_input: None,
            cache_write: None,
        };
        let stated = ModelDefinition {
            choice: choice("openai/gpt-5"),
            price: Some(free),
            context_tokens: None,
            answer_tokens: None,
        };
        let small = ModelDefinition {
            choice: choice("openai/tiny"),
            price: None,
            context_tokens: Some(2048),
            answer_tokens: None,
        };
        let catalogue = ModelCatalogue::new(vec![stated, small], built_in());
        let facts = catalogue.facts(&choice("openai/gpt-5"));
        assert_eq!((facts.price, facts.context_tokens), (Some(free), 400_000));
        assert_eq!(catalogue.facts(&choice("openai/tiny")).answer_tokens, 512);
        let first = catalogue.models_of("openai").next();
        assert_eq!(first, Some(&choice("openai/gpt-5")));
    }
}
