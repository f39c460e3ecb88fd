"""Serves the JupyterLab that bundle.mjs built with Debian's python3-jupyterlab-server, under the options of jupyter-lab."""

import os
import sys
from pathlib import Path

from jupyterlab_server import LabServerApp
from traitlets import Unicode, default

HERE = Path(__file__).resolve().parent
LAB = HERE / "lab"


class LabApp(LabServerApp):
    name = "lab"
    app_name = "JupyterLab"
    app_version = (LAB / "version").read_text()
    extension_url = "/lab"
    default_url = Unicode("/lab", config=True)
    load_other_extensions = False
    schemas_dir = str(LAB / "schemas")
    static_dir = str(LAB / "static")
    templates_dir = str(LAB / "templates")
    themes_dir = str(LAB / "themes")
    themes_url = "/lab/api/themes"

    @default("labextensions_path")
    def _no_further_extensions(self):
        return []


def _jupyter_server_extension_points():
    return [{"module": __name__, "app": LabApp}]


for folder in ("settings", "workspaces"):
    os.makedirs(HERE / "state" / folder, exist_ok=True)
for folder in ("app", "settings", "workspaces"):
    os.makedirs(HERE / "state" / folder, exist_ok=True)
sys.exit(LabApp.launch_instance())
