# shellcheck shell=bash
# Sourced by the checks that build a copy of the tree, away from the user's own outputs.

# copy_tree FROM TO: copies what git tracks, and what it would track, as it is on disk now.
copy_tree() {
  mkdir -p "$2"
  git -C "$1" ls-files -z --cached --others --exclude-standard |
    (cd "$1" && while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done) |
    tar --directory="$1" --no-recursion --null --files-from=- --create --file=- |
    tar --directory="$2" --extract --file=-
}
