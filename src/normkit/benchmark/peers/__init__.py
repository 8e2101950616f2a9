"""Everybody whom we are timed against, and ourselves: one file for each kind."""

from __future__ import annotations

from collections.abc import Mapping

from normkit.benchmark.peers.in_onnxruntime import OnnxRuntimePeer
from normkit.benchmark.peers.in_openvino import OpenVinoPeer
from normkit.benchmark.peers.in_torch import CompilePeer, FunctionPeer, ScriptPeer
from normkit.benchmark.peers.in_transformers import TransformersPeer
from normkit.benchmark.peers.peer import Peer, RefusedError

OURS, TORCH = "normkit", "torch"

PEERS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        FunctionPeer(OURS, lambda op: op.ours, module=0),
        FunctionPeer(TORCH, lambda op: op.torch, module=1),
        CompilePeer(),
        FunctionPeer("formula", lambda op: op.formula),
        ScriptPeer(),
        OnnxRuntimePeer(),
        OpenVinoPeer(),
        TransformersPeer(),
    )
}

__all__ = ["OURS", "PEERS", "TORCH", "Peer", "RefusedError"]
