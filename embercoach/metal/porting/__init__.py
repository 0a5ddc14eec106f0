"""Ports of kernels with a full signature to ``mx.fast.metal_kernel``.

``embercoach port`` calls ``ported_modules``. ``entry_points`` reads the file, ``arguments``
decides what each parameter becomes, ``bodies`` edits the text of the body.
"""
