"""What the checking tools share: the list of the project's own files."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Folders that hold outputs or things that are not ours.
SKIPPED = {".git", ".venv", ".cache", "build", "dist", "shared", "__pycache__", ".pytest_cache", ".ruff_cache"}


def git(*args: str, root: Path = ROOT) -> str | None:
    """Output of a git command, or None where git or the repository is missing or the command fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def project_files(root: Path = ROOT) -> list[Path]:
    """Tracked and new files that git does not ignore, relative to root; without git, all files of the tree."""
    listed = git("ls-files", "-co", "--exclude-standard", "-z", root=root) if (root / ".git").exists() else None
    if listed is not None:
        names = [Path(name) for name in listed.split("\0") if name]
    else:
        names = [file.relative_to(root) for file in root.rglob("*")]
    kept = {name for name in names if not SKIPPED & set(name.parts) and (root / name).is_file()}
    return sorted(kept)
