"""Protocol buffer messages."""

from aioexec.formats.protos import (
    AttrValue as AttrValue,
    CallableOptions as CallableOptions,
    ConfigProto as ConfigProto,
    Event as Event,
    GPUOptions as GPUOptions,
    GraphDef as GraphDef,
    GraphOptions as GraphOptions,
    HistogramProto as HistogramProto,
    LogMessage as LogMessage,
    MetaGraphDef as MetaGraphDef,
    NameAttrList as NameAttrList,
    NodeDef as NodeDef,
    OptimizerOptions as OptimizerOptions,
    RPCOptions as RPCOptions,
    RunMetadata as RunMetadata,
    RunOptions as RunOptions,
    SessionLog as SessionLog,
    Summary as Summary,
    SummaryMetadata as SummaryMetadata,
    TensorProto as TensorProto,
)
