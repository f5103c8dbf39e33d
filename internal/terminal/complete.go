package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// completeLine completes the word before the cursor: one of the commands, or the
// name of a file after one. It returns what to insert, "" where nothing
// fits or more than one thing does.
func completeLine(before string, commands []string) string {
	start := strings.LastIndexByte(before, ' ') + 1
	word := before[start:]
	if start == 0 && strings.HasPrefix(word, "/") {
		return completion(word, slices.Clone(commands))
	}
	if word == "" {
		return ""
	}
	dir, _ := filepath.Split(word)
	entries, err := os.ReadDir(filepath.Join(".", dir))
	if filepath.IsAbs(dir) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if name := dir + e.Name(); e.IsDir() {
			names = append(names, name+string(filepath.Separator))
		} else {
			names = append(names, name)
		}
	}
	return completion(word, names)
}

// completion returns what all names that begin with a word have in common after
// it.
func completion(word string, names []string) string {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	if len(names) == 0 {
		return ""
	}
	common := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, common) {
			r := []rune(common)
			common = string(r[:len(r)-1])
		}
	}
	return common[len(word):]
}
