package kernel

import "fmt"

// allowedInstructions are those that kernels may consist of. What is absent is
// forbidden: division of floats, dot products and matrices, fused operations,
// atomics, operations of subgroups, conversions to 16-bit floats.
var allowedInstructions = func() map[uint32]string {
	m := map[uint32]string{}
	for op, name := range map[uint32]string{
		opExtInstImport: "ExtInstImport", opExtInst: "ExtInst", 14: "MemoryModel", opEntryPoint: "EntryPoint",
		opExecutionMode: "ExecutionMode", opCapability: "Capability",
		19: "TypeVoid", 20: "TypeBool", 21: "TypeInt", opTypeFloat: "TypeFloat", 23: "TypeVector", 28: "TypeArray",
		29: "TypeRuntimeArray", 30: "TypeStruct", opTypePointer: "TypePointer", 33: "TypeFunction",
		41: "ConstantTrue", 42: "ConstantFalse", 43: "Constant", 44: "ConstantComposite",
		54: "Function", 55: "FunctionParameter", 56: "FunctionEnd", 57: "FunctionCall", 59: "Variable",
		61: "Load", 62: "Store", 65: "AccessChain", opDecorate: "Decorate", opMemberDecorate: "MemberDecorate",
		81: "CompositeExtract", 109: "ConvertFToU", 110: "ConvertFToS", 111: "ConvertSToF", 112: "ConvertUToF", 124: "Bitcast",
		126: "SNegate", opFNegate: "FNegate", 128: "IAdd", opFAdd: "FAdd", 130: "ISub", opFSub: "FSub", 132: "IMul", opFMul: "FMul",
		134: "UDiv", 135: "SDiv", 137: "UMod",
		164: "LogicalEqual", 165: "LogicalNotEqual", 166: "LogicalOr", 167: "LogicalAnd", 168: "LogicalNot", 169: "Select",
		170: "IEqual", 171: "INotEqual", 172: "UGreaterThan", 173: "SGreaterThan", 174: "UGreaterThanEqual", 175: "SGreaterThanEqual",
		176: "ULessThan", 177: "SLessThan", 178: "ULessThanEqual", 179: "SLessThanEqual",
		184: "FOrdLessThan", 186: "FOrdGreaterThan", 188: "FOrdLessThanEqual", 190: "FOrdGreaterThanEqual",
		194: "ShiftRightLogical", 195: "ShiftRightArithmetic", 196: "ShiftLeftLogical", 197: "BitwiseOr", 198: "BitwiseXor",
		199: "BitwiseAnd", 200: "Not", 224: "ControlBarrier",
		245: "Phi", 246: "LoopMerge", 247: "SelectionMerge", 248: "Label", 249: "Branch", 250: "BranchConditional",
		253: "Return", 254: "ReturnValue", 255: "Unreachable",
	} {
		m[op] = name
	}
	return m
}()

// unsignedMin is the only instruction of GLSL.std.450 that kernels use.
const unsignedMin = 38

// Inspect returns an error for a module with an instruction that kernels must not
// have, a capability but Shader, floats that are not 32 bits wide, or float
// arithmetic that is not decorated NoContraction. arithmetic is the number of
// operations of float arithmetic.
func Inspect(words []uint32) (arithmetic int, err error) {
	list, err := instructions(words)
	if err != nil {
		return 0, err
	}
	decorated := map[uint32]bool{}
	for _, in := range list {
		op := in.op()
		if _, ok := allowedInstructions[op]; !ok {
			return 0, fmt.Errorf("%w: instruction %d", ErrSPIRV, op)
		}
		switch {
		case op == opCapability && in.word(1) != 1:
			return 0, fmt.Errorf("%w: capability %d", ErrSPIRV, in.word(1))
		case op == opTypeFloat && in.word(2) != 32:
			return 0, fmt.Errorf("%w: floats of %d bits", ErrSPIRV, in.word(2))
		case op == opExtInst && in.word(4) != unsignedMin:
			return 0, fmt.Errorf("%w: instruction %d of GLSL.std.450", ErrSPIRV, in.word(4))
		case op == opDecorate && in.word(2) == decorationNoContraction:
			decorated[in.word(1)] = true
		case floatArithmetic(op):
			if !decorated[in.word(2)] {
				return 0, fmt.Errorf("%w: operation %s may be contracted", ErrSPIRV, allowedInstructions[op])
			}
			arithmetic++
		}
	}
	return arithmetic, nil
}
