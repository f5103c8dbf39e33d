package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// completeLine completes the word before the cursor: one of the commands at the
// beginning, else the name of a file, also behind an @. It returns what to
// insert, and all that the word may become.
func completeLine(before string, commands []string) (more string, choices []string) {
	start := strings.LastIndexAny(before, " \n\t") + 1
	word := before[start:]
	if start == 0 && strings.HasPrefix(word, "/") {
		return completeWord(word, slices.Clone(commands))
	}
	if word == "" {
		return "", nil
	}
	word = strings.TrimPrefix(word, "@")
	dir, _ := filepath.Split(word)
	entries, err := os.ReadDir(filepath.Join(".", dir))
	if filepath.IsAbs(dir) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return "", nil
	}
	var names []string
	for _, e := range entries {
		name := dir + e.Name()
		if e.IsDir() {
			name += string(filepath.Separator)
		}
		names = append(names, name)
	}
	return completeWord(word, names)
}

// completeWord returns what all names that begin with a word have in common after
// it, and those names.
func completeWord(word string, names []string) (more string, choices []string) {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	if len(names) == 0 {
		return "", nil
	}
	common := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	return common[len(word):], names
}
