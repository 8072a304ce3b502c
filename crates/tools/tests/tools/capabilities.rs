//! The declared effects of the built-in tools, from which the risk of a plan is estimated.

use cleveragents_domain::tool::ToolEffect;
use cleveragents_ports::tools::Toolbox;

use crate::fixture::ToolFixture;

#[test]
fn every_tool_declares_its_effect_on_files() {
    let fixture = ToolFixture::new();
    let effect_of = |name: &str| match name {
        "builtin/shell" => ToolEffect::RunsCommand,
        "builtin/file-delete" | "builtin/dir-delete" => ToolEffect::DeletesFiles,
        "builtin/file-write" | "builtin/file-edit" | "builtin/file-move" | "builtin/file-copy" => {
            ToolEffect::ChangesFiles
        }
        _ => ToolEffect::NoChange,
    };
    let definitions = fixture.tools.definitions();
    assert_eq!(definitions.len(), 19);
    for definition in definitions {
        let name = definition.name.to_string();
        assert_eq!(definition.capability.effect, effect_of(&name), "{name}");
    }
}
