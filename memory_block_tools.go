package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// offersBlockTools reports whether the agent has a block that it may change.
func offersBlockTools(policy *session.MemoryPolicy) bool {
	if policy == nil {
		return false
	}
	for _, b := range policy.Blocks {
		if !b.ReadOnly {
			return true
		}
	}
	return false
}

func blockReplaceTool() (tool.Tool, error) {
	type arguments struct {
		Block string `json:"block" jsonschema:"the name of the block"`
		Old   string `json:"old" jsonschema:"the text to replace, exactly as it is in the block; it must be there once"`
		New   string `json:"new" jsonschema:"what stands there instead; empty to remove the old text"`
	}
	spec := blockTool("memory_block_replace", "Replace a part of one of your memory blocks, for example what is no longer true.")
	return tool.Func(spec, func(ctx context.Context, in arguments) (blockEdited, error) {
		return editBlock(ctx, in.Block, memory.BlockEdit{Do: memory.BlockReplace, Old: in.Old, Text: in.New})
	})
}

func blockAppendTool() (tool.Tool, error) {
	type arguments struct {
		Block string `json:"block" jsonschema:"the name of the block"`
		Text  string `json:"text" jsonschema:"a line to add at the end"`
	}
	spec := blockTool("memory_block_append", "Add a line at the end of one of your memory blocks.")
	return tool.Func(spec, func(ctx context.Context, in arguments) (blockEdited, error) {
		return editBlock(ctx, in.Block, memory.BlockEdit{Do: memory.BlockAppend, Text: in.Text})
	})
}

func blockInsertTool() (tool.Tool, error) {
	type arguments struct {
		Block string `json:"block" jsonschema:"the name of the block"`
		Text  string `json:"text" jsonschema:"a line to add"`
		Line  int    `json:"line" jsonschema:"the number of the line after which it is added; 0: before the first"`
	}
	spec := blockTool("memory_block_insert", "Add a line in the middle or at the start of one of your memory blocks.")
	return tool.Func(spec, func(ctx context.Context, in arguments) (blockEdited, error) {
		return editBlock(ctx, in.Block, memory.BlockEdit{Do: memory.BlockInsert, Text: in.Text, Line: in.Line})
	})
}

func blockTool(name, description string) tool.Spec {
	return tool.Spec{Name: name, Nature: tool.Idempotent, Effects: tool.Read, Description: description}
}

// blockEdited tells the agent how much room a block has left.
type blockEdited struct {
	Block   string `json:"block"`
	Version int64  `json:"version"`
	Size    int    `json:"size"`
	Limit   int    `json:"limit"`
}

func editBlock(ctx context.Context, name string, edit memory.BlockEdit) (blockEdited, error) {
	b, err := Env(ctx).Memory().EditBlock(ctx, name, edit)
	return blockEdited{Block: b.Name, Version: b.Version, Size: b.Size, Limit: b.Limit}, err
}
