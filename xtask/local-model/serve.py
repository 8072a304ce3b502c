"""llama.cpp's server on a free port of this machine, until standard input ends."""

import sys

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.model_alias = {"smollm2"}
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.n_ctx = 8192
parameters.n_parallel = 2
parameters.cpuparams.n_threads = 2
parameters.use_jinja = True
server = xllamacpp.Server(parameters)
print("LISTENING", server.listening_address, flush=True)
sys.stdin.read()
