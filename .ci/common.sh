# What .ci/run and .ci/long share: the Pythons, uv, and clean clones of the last commit in a folder of their own.
# Source it at the repository's top; it sets `repository`, `scratch` and `python`.

unset PYTHONDONTWRITEBYTECODE  # with it, every command that a test starts is compiled again: twice the time
export UV_PYTHON_DOWNLOADS=never

repository=$PWD
scratch=$(mktemp -d)
# What the last lines say, in files because some steps run in a process of their own.
mkdir "$scratch/notes"
touch "$scratch/notes/ran" "$scratch/notes/not_found" "$scratch/notes/flaky"
# Some tests read recordings that are kept beside the repository; without them these tests are skipped.
[ ! -d "$repository/../shared" ] || ln -s "$(realpath "$repository/../shared")" "$scratch/shared"

# find_python VERSION: print the path of that Python, from PATH or from pyenv; fail if there is none.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
        if "$candidate" -c '' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

python=$(find_python 3.11) || { echo "Python 3.11 is needed and was not found" >&2; exit 2; }

# clone NAME OPTIONS...: a clean clone of the last commit, in a folder of that name, with an environment of those options.
clone() {
    local name=$1
    shift
    git clone --quiet "$repository" "$scratch/$name"
    [ ! -e "$scratch/uv.lock" ] || cp "$scratch/uv.lock" "$scratch/$name"  # the same releases
    (cd "$scratch/$name" && uv sync --quiet --python "$python" "$@")
    [ -e "$scratch/uv.lock" ] || cp "$scratch/$name/uv.lock" "$scratch"
}

# cpu_s: set `cpu` to the CPU seconds, user and system, of the processes of this shell that have ended.
cpu_s() {
    local file=$scratch/times.$BASHPID  # `times` tells of the shell that runs it: not of one in a pipe
    times >"$file"
    sed -n '2s/[ms]/ /gp' "$file" | awk '{ printf "%d\n", 60 * ($1 + $3) + $2 + $4 }' >"$file.sum"
    cpu=$(<"$file.sum")
}

# step TITLE COMMAND...: run a command under a heading and note how long it took.
step() {
    local title=$1 started=$SECONDS before cpu
    shift
    printf '\n== %s\n' "$title"
    cpu_s
    before=$cpu
    "$@"
    cpu_s
    echo "$title ($((SECONDS - started)) s, $((cpu - before)) s of CPU)" >>"$scratch/notes/ran"
}

# tests COMMAND...: run tests. Those that fail run once more, by themselves; if they pass then, they are listed at the
# end: each is a defect of the test or of the code, but no reason to leave the rest unchecked.
tests() {
    "$@" && return
    again "$@"
}

# again COMMAND...: run once more what failed in the current folder, and note it.
again() {
    local failed
    failed=$("$python" -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")))')
    printf '\n-- Once more: %s\n' "$failed"
    "$@" --last-failed --last-failed-no-failures none
    echo "$failed" >>"$scratch/notes/flaky"
}

# tested VERSION COMMAND...: fail unless the DuckDB in an environment, of which COMMAND runs Python, has this version.
tested() {
    local version=$1
    shift
    "$@" python -c "import duckdb, sys; print('DuckDB', duckdb.__version__); sys.exit(not duckdb.__version__.startswith('$version'))"
}

# in_environment OPTIONS... -- COMMAND...: run tests in an environment of their own.
in_environment() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    tests uv run --quiet --isolated --python "$python" "${options[@]}" "$@"
}

# on_python VERSION TITLE ARGUMENTS...: run tests on another Python, if it is installed.
on_python() {
    local version=$1 title=$2 newer
    shift 2
    if newer=$(find_python "$version"); then
        step "$title on Python $version" tests uv run --quiet --isolated --python "$newer" --extra dev pytest "$@"
    else
        echo "Python $version" >>"$scratch/notes/not_found"
    fi
}

install_chromium() {
    command -v chromium >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
    command -v chromium >/dev/null
}

# in_chromium ARGUMENTS...: run the tests of pages in a browser, with options of pytest.
in_chromium() {
    if install_chromium; then
        step "pages in Chromium" in_environment --extra dev --group browser -- pytest tests/browser "$@"
    else
        echo "Chromium (apt-get install chromium)" >>"$scratch/notes/not_found"
    fi
}

on_a_lake=(--extra lake --extra ray --extra serve --extra view --extra stats --group lake)
# in_a_lake ARGUMENTS...: run the tests of a lake, with options of pytest.
in_a_lake() {
    tested 1.5.5 uv run --quiet --isolated --python "$python" "${on_a_lake[@]}"
    step "a lake: DuckDB 1.5.5 with its extensions" in_environment "${on_a_lake[@]}" -- pytest tests/lake "$@"
}

# build FOLDER: build the sdist and the wheel of the current folder, and check what they contain.
build() {
    uv build --quiet --python "$python" --out-dir "$1"
    "$python" .ci/check_archives.py "$1"
}

if ! command -v uv >/dev/null; then
    "$python" -m venv "$scratch/uv"
    "$scratch/uv/bin/pip" install --quiet --disable-pip-version-check uv
    PATH=$PATH:$scratch/uv/bin
fi

# report: the last lines: what ran and what was not found.
report() {
    printf '\n%s in %d min:\n' "$1" $((SECONDS / 60))
    sed 's/^/  /' "$scratch/notes/ran"
    sed 's/^/Failed once and passed when repeated: /' "$scratch/notes/flaky"
    sed 's/^/Not run because it was not found: /' "$scratch/notes/not_found"
}
