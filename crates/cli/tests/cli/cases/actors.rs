//! Commands about actors.

use super::{SnapshotCase, case, without_setup};
use crate::environment::TestEnvironment;

pub(super) const CASES: &[SnapshotCase] = &[
    case(
        "actor add",
        "",
        &["actor", "add", "--config", "greeter.yaml", "local/greeter"],
        with_files,
    ),
    case(
        "actor add",
        "taken",
        &["actor", "add", "--config", "greeter.yaml"],
        with_actors,
    ),
    case(
        "actor add",
        "update",
        &["actor", "add", "--config", "greeter.yaml", "--update"],
        with_actors,
    ),
    case(
        "actor add",
        "wrong",
        &["actor", "add", "--config", "wrong.yaml"],
        with_files,
    ),
    case(
        "actor add",
        "llm",
        &["actor", "add", "--config", "llm.yaml"],
        with_files,
    ),
    case(
        "actor add",
        "no-script",
        &["actor", "add", "--config", "no-script.yaml"],
        with_files,
    ),
    case(
        "actor add",
        "wrong-llm",
        &["actor", "add", "--config", "wrong-llm.yaml"],
        with_files,
    ),
    case("actor list", "", &["actor", "list"], with_actors),
    case(
        "actor list",
        "llm",
        &["actor", "list", "--type", "llm"],
        with_actors,
    ),
    case("actor list", "none", &["actor", "list"], without_setup),
    case(
        "actor list",
        "filtered",
        &["actor", "list", "--type", "tool", "GREET"],
        with_actors,
    ),
    case("actor show", "", &["actor", "show", "greeter"], with_actors),
    case(
        "actor show",
        "llm",
        &["actor", "show", "coder"],
        with_actors,
    ),
    case(
        "actor show",
        "default-model",
        &["actor", "show", "builtin/coder"],
        without_setup,
    ),
    case(
        "actor show",
        "built-in",
        &["actor", "show", "builtin/direct"],
        with_actors,
    ),
    case(
        "actor show",
        "unknown",
        &["actor", "show", "greter"],
        with_actors,
    ),
    case(
        "actor remove",
        "",
        &["actor", "remove", "team/quiet", "--yes"],
        with_actors,
    ),
    case(
        "actor remove",
        "in-use",
        &["actor", "remove", "greeter"],
        with_actors,
    ),
    case(
        "actor remove",
        "forced",
        &["actor", "remove", "greeter", "--force"],
        with_actors,
    ),
    case(
        "actor remove",
        "built-in",
        &["actor", "remove", "builtin/direct", "--force"],
        without_setup,
    ),
    case(
        "actor validate",
        "",
        &["actor", "validate", "--config", "greeter.yaml"],
        with_files,
    ),
    case(
        "actor validate",
        "llm",
        &["actor", "validate", "--config", "llm.yaml"],
        with_files,
    ),
    case(
        "actor validate",
        "wrong",
        &["actor", "validate", "--config", "wrong.yaml"],
        with_files,
    ),
];

pub(crate) const GREETER: &str = "\
# yaml-language-server: $schema=actor.schema.json
version: 1
name: local/greeter
type: tool
description: Writes a greeting into a file
steps:
  - id: write
    tool: builtin/file-write
    input: {path: '{{ args.file }}', content: 'Hello, {{ args.name }}!'}
  - tool: builtin/shell
    resource: local/shop
    when: args.check
    input: {command: 'cat {{ steps.write.path }}', timeout: 5}
";

const INVALID: &str = "\
name: local/wrong
type: tool
description: Has every kind of mistake
steps:
  - {tool: builtin/file-read, id: read, input: {path: a}}
  - {tool: builtin/file-write, id: read, when: '{{ args.x }}', input: {path: '{{ steps.later.path }}'}}
  - {tool: builtin/shell, id: 2nd, input: {command: 'echo {{ args.name'}}
";

pub(crate) const LLM: &str = "\
name: local/coder
type: llm
description: Writes code
provider: openai
model: gpt
system_prompt: |
  Make the smallest change that does it.
  Run the tests before you finish.
temperature: 0.2
max_tokens: 8000
tools: [builtin/file-read, builtin/file-edit, builtin/finish]
skills: [release-notes]
";

const INVALID_LLM: &str = "\
name: local/wrong
type: llm
description: Has every kind of mistake
model: gpt
temperature: 3
tools: [builtin/shell, builtin/shell]
steps: []
sytem_prompt: Be brief
";

fn with_files(environment: &mut TestEnvironment) {
    environment.write("work/greeter.yaml", GREETER);
    environment.write("work/wrong.yaml", INVALID);
    environment.write("work/llm.yaml", LLM);
    environment.write("work/wrong-llm.yaml", INVALID_LLM);
    let scripted = "name: local/player\ntype: llm\ndescription: Plays a script\n\
                    provider: scripted\nmodel: scripts/none.yaml\n";
    environment.write("work/no-script.yaml", scripted);
    environment.write(
        "work/quiet.yaml",
        "name: team/quiet\ntype: tool\ndescription: Looks around\n\
         steps: [{tool: builtin/git-status}]\n",
    );
}

/// Two actors, one of which is used by an action.
fn with_actors(environment: &mut TestEnvironment) {
    with_files(environment);
    let named = super::small_action("local/greet").replace("local/coder", "local/greeter");
    environment.write("work/greet.yaml", named);
    for arguments in [
        ["actor", "add", "--config", "greeter.yaml"],
        ["actor", "add", "--config", "quiet.yaml"],
        ["actor", "add", "--config", "llm.yaml"],
        ["action", "create", "--config", "greet.yaml"],
    ] {
        environment.run(&arguments).succeeded();
    }
}
